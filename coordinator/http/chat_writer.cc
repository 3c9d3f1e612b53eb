#include "coordinator/http/chat_writer.h"

#include <utility>
#include <vector>

#include "coordinator/http/api_error.h"
#include "coordinator/http/logprobs_json.h"
#include "coordinator/http/usage_json.h"

namespace espalier::coordinator {
namespace {

const char* FinishReason(const v1::GenerateSummary& summary) {
  return summary.finish_reason() == v1::FINISH_REASON_LENGTH ? "length"
                                                             : "stop";
}

// vLLM's further fields of a choice.
void AddStopReason(const v1::GenerateSummary& summary, Json& choice) {
  choice["stop_reason"] = nullptr;
  if (summary.has_matched_stop()) {
    choice["stop_reason"] = summary.matched_stop();
  }
}

void AddTokens(const v1::GenerateResponse& message, Json& choice) {
  for (const uint32_t token : message.token_ids()) {
    choice["token_ids"].push_back(token);
  }
}

// What both forms of the answer have.
class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const ApiRequest& request, AnswerName name)
      : include_usage_(request.include_usage),
        logprobs_(request.logprobs),
        token_ids_(request.return_token_ids),
        num_outputs_(request.generate.has_n() ? request.generate.n() : 1),
        name_(std::move(name)),
        usage_(request.warnings) {}

 protected:
  Json Head(const char* object) const {
    return {{"id", name_.id},
            {"object", object},
            {"created", name_.created},
            {"model", name_.model},
            {"system_fingerprint", nullptr},
            {"choices", Json::array()}};
  }

  const bool include_usage_;
  const bool logprobs_;
  const bool token_ids_;
  const uint32_t num_outputs_;
  const AnswerName name_;
  UsageSum usage_;
};

class StreamedChat final : public ChatWriter {
 public:
  StreamedChat(const ApiRequest& request, AnswerName name)
      : ChatWriter(request, std::move(name)), begun_(num_outputs_, false) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    std::string events;
    if (!begun_[message.index()]) events += Begin(message);
    const bool is_last = message.has_summary();
    if (!message.text().empty() || message.logprobs_size() > 0 || token_ids_) {
      events += Event(Piece(message));
    }
    if (is_last) events += Event(Last(message));
    return events;
  }

  std::string Finish() override {
    std::string events;
    if (include_usage_) {
      Json chunk = Head(kObject);
      chunk["usage"] = usage_.OpenAiUsage();
      events = Event(chunk);
    }
    return events + kDoneEvent;
  }

  std::string Fail(const absl::Status& status) override {
    return Event(OpenAiError(status)) + kDoneEvent;
  }

 private:
  static constexpr char kObject[] = "chat.completion.chunk";

  Json Chunk(const v1::GenerateResponse& message, Json delta) const {
    Json chunk = Head(kObject);
    chunk["choices"].push_back({{"index", message.index()},
                                {"delta", std::move(delta)},
                                {"logprobs", nullptr},
                                {"finish_reason", nullptr}});
    if (include_usage_) chunk["usage"] = nullptr;
    return chunk;
  }

  std::string Begin(const v1::GenerateResponse& message) {
    begun_[message.index()] = true;
    Json chunk = Chunk(message, {{"role", "assistant"}, {"content", ""}});
    if (message.has_prompt() && message.prompt().logprobs_size() > 0) {
      chunk["prompt_logprobs"] = PromptLogprobs(message.prompt().logprobs());
    }
    return Event(chunk);
  }

  Json Piece(const v1::GenerateResponse& message) const {
    Json chunk = Chunk(message, {{"content", message.text()}});
    Json& choice = chunk["choices"][0];
    if (logprobs_) {
      Json content = Json::array();
      AppendChatLogprobs(message.logprobs(), content);
      choice["logprobs"] = {{"content", std::move(content)},
                            {"refusal", nullptr}};
    }
    if (token_ids_) AddTokens(message, choice);
    return chunk;
  }

  Json Last(const v1::GenerateResponse& message) {
    usage_.Add(message);
    Json chunk = Chunk(message, Json::object());
    Json& choice = chunk["choices"][0];
    choice["finish_reason"] = FinishReason(message.summary());
    AddStopReason(message.summary(), choice);
    UsageSum own({});
    own.Add(message);
    chunk["espalier"] = own.Espalier();
    return chunk;
  }

  std::vector<bool> begun_;  // by output
};

class WholeChat final : public ChatWriter {
 public:
  WholeChat(const ApiRequest& request, AnswerName name)
      : ChatWriter(request, std::move(name)), choices_(num_outputs_) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    Choice& choice = choices_[message.index()];
    choice.text += message.text();
    if (logprobs_) AppendChatLogprobs(message.logprobs(), choice.logprobs);
    if (token_ids_) AddTokens(message, choice.json);
    if (message.has_prompt() && message.prompt().logprobs_size() > 0) {
      prompt_logprobs_ = PromptLogprobs(message.prompt().logprobs());
    }
    if (message.has_summary()) {
      choice.json["finish_reason"] = FinishReason(message.summary());
      AddStopReason(message.summary(), choice.json);
      usage_.Add(message);
    }
    return "";
  }

  std::string Finish() override {
    Json body = Head("chat.completion");
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json json = {{"index", i},
                   {"message",
                    {{"role", "assistant"},
                     {"content", choice.text},
                     {"refusal", nullptr}}},
                   {"logprobs", nullptr}};
      if (logprobs_) {
        json["logprobs"] = {{"content", std::move(choice.logprobs)},
                            {"refusal", nullptr}};
      }
      json.update(choice.json);
      body["choices"].push_back(std::move(json));
    }
    body["usage"] = usage_.OpenAiUsage();
    if (!prompt_logprobs_.is_null()) {
      body["prompt_logprobs"] = std::move(prompt_logprobs_);
    }
    body["espalier"] = usage_.Espalier();
    return Dump(body);
  }

  std::string Fail(const absl::Status&) override { return ""; }

 private:
  struct Choice {
    std::string text;
    Json logprobs = Json::array();
    Json json = Json::object();  // the rest
  };

  std::vector<Choice> choices_;  // by output
  Json prompt_logprobs_;
};

}  // namespace

std::unique_ptr<AnswerWriter> NewChatWriter(const ApiRequest& request,
                                            AnswerName name) {
  if (request.stream) {
    return std::make_unique<StreamedChat>(request, std::move(name));
  }
  return std::make_unique<WholeChat>(request, std::move(name));
}

}  // namespace espalier::coordinator
