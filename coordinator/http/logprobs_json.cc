#include "coordinator/http/logprobs_json.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace espalier::coordinator {
namespace {

Json BytesOf(const std::string& token) {
  Json bytes = Json::array();
  for (const char byte : token) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return bytes;
}

Json ChatToken(const v1::TokenLogprob& token) {
  return {{"token", token.token()},
          {"logprob", token.logprob()},
          {"bytes", BytesOf(token.token())}};
}

// Code points of UTF-8; a stray byte counts as one.
int64_t Characters(const std::string& text) {
  int64_t count = 0;
  for (const char byte : text) {
    count += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }
  return count;
}

void AddTo(const v1::TokenLogprob& token, int rank, Json& by_id) {
  Json entry = {{"logprob", token.logprob()}, {"decoded_token", token.token()}};
  if (rank > 0) entry["rank"] = rank;
  Json& place = by_id[absl::StrCat(token.token_id())];
  if (place.is_null()) place = std::move(entry);
}

}  // namespace

void AppendChatLogprobs(const PositionList& positions, Json& content) {
  for (const v1::PositionLogprobs& position : positions) {
    Json entry = ChatToken(position.chosen());
    entry["top_logprobs"] = Json::array();
    for (const v1::TokenLogprob& top : position.top()) {
      entry["top_logprobs"].push_back(ChatToken(top));
    }
    content.push_back(std::move(entry));
  }
}

Json CompletionLogprobs::Empty() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

void CompletionLogprobs::AddFirst(const std::string& token) {
  lists_["tokens"].push_back(token);
  lists_["token_logprobs"].push_back(nullptr);
  lists_["top_logprobs"].push_back(nullptr);
  lists_["text_offset"].push_back(offset_);
  offset_ += Characters(token);
}

void CompletionLogprobs::Add(const PositionList& positions) {
  for (const v1::PositionLogprobs& position : positions) {
    Json top = Json::object();
    for (const v1::TokenLogprob& token : position.top()) {
      top[token.token()] = token.logprob();
    }
    lists_["tokens"].push_back(position.chosen().token());
    lists_["token_logprobs"].push_back(position.chosen().logprob());
    lists_["top_logprobs"].push_back(std::move(top));
    lists_["text_offset"].push_back(offset_);
    offset_ += Characters(position.chosen().token());
  }
}

Json CompletionLogprobs::Take() { return std::exchange(lists_, Empty()); }

Json PromptLogprobs(const PositionList& positions) {
  Json list = Json::array({nullptr});
  for (const v1::PositionLogprobs& position : positions) {
    Json by_id = Json::object();
    for (int i = 0; i < position.top_size(); ++i) {
      AddTo(position.top(i), i + 1, by_id);
    }
    AddTo(position.chosen(), 0, by_id);
    list.push_back(std::move(by_id));
  }
  return list;
}

}  // namespace espalier::coordinator
