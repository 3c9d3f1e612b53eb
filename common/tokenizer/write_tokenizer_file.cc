#include "common/tokenizer/write_tokenizer_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

Json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json PreTokenizerJson(const PreTokenizer& pre_tokenizer) {
  Json steps = Json::array();
  if (pre_tokenizer.split_digits) {
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  }
  for (const SplitPattern& split : pre_tokenizer.splits) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", split.pattern()}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(ByteLevel());
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// ["<s>", $A] with the names that the added tokens have.
Json PostProcessorJson(const TokenizerFile& file) {
  if (file.prefix.empty()) return nullptr;
  Json single = Json::array(), special = Json::object();
  for (TokenId id : file.prefix) {
    const auto token =
        std::find_if(file.added_tokens.begin(), file.added_tokens.end(),
                     [id](const auto& t) { return t.id == id; });
    const std::string name =
        token == file.added_tokens.end() ? std::to_string(id) : token->content;
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    special[name] = {{"id", name},
                     {"ids", Json::array({id})},
                     {"tokens", Json::array({name})}};
  }
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  return {
      {"type", "TemplateProcessing"},
      {"single", std::move(single)},
      {"pair", Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                            {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
      {"special_tokens", std::move(special)}};
}

Json AddedTokensJson(std::vector<AddedToken> tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  Json list = Json::array();
  for (const AddedToken& token : tokens) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

Json ModelJson(const TokenizerFile& file) {
  Json vocabulary = Json::object();
  for (const auto& [token, id] : file.vocabulary) vocabulary[token] = id;
  Json merges = Json::array();
  for (const auto& [left, right] : file.merges) {
    merges.push_back(Json::array({left, right}));
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", file.unknown_token.empty() ? Json(nullptr)
                                                   : Json(file.unknown_token)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", file.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

}  // namespace

std::string WriteTokenizerFile(const TokenizerFile& file) {
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", AddedTokensJson(file.added_tokens)},
      {"normalizer",
       file.normalize_to_nfc ? Json({{"type", "NFC"}}) : Json(nullptr)},
      {"pre_tokenizer", PreTokenizerJson(file.pre_tokenizer)},
      {"post_processor", PostProcessorJson(file)},
      {"decoder", ByteLevel()},
      {"model", ModelJson(file)}};
  return json.dump();
}

}  // namespace espalier
