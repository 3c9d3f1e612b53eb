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

Json Steps(const char* list, Json steps) {
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

Json ReplaceJson(const Normalizer::Step& step) {
  return {{"type", "Replace"},
          {"pattern", {{"String", step.from}}},
          {"content", step.to}};
}

Json StepJson(const Normalizer::Step& step) {
  switch (step.kind) {
    case Normalizer::Kind::kForm:
      return {{"type", NameOf(step.form)}};
    case Normalizer::Kind::kLower:
      return {{"type", "Lowercase"}};
    case Normalizer::Kind::kPrepend:
      return {{"type", "Prepend"}, {"prepend", step.to}};
    case Normalizer::Kind::kReplace:
      return ReplaceJson(step);
    case Normalizer::Kind::kStrip:
      return {{"type", "Strip"},
              {"strip_left", step.left},
              {"strip_right", step.right}};
  }
  return nullptr;
}

Json NormalizerJson(const Normalizer& normalizer) {
  if (normalizer.steps().empty()) return nullptr;
  Json steps = Json::array();
  for (const Normalizer::Step& step : normalizer.steps()) {
    steps.push_back(StepJson(step));
  }
  return Steps("normalizers", std::move(steps));
}

Json DecoderJson(const TokenizerFile& file) {
  if (file.alphabet == Alphabet::kByteLevel) return ByteLevel();
  Json steps = Json::array();
  for (const Normalizer::Step& step : file.decoder.steps()) {
    steps.push_back(ReplaceJson(step));
  }
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (file.decoder_strip > 0) {
    steps.push_back({{"type", "Strip"},
                     {"content", " "},
                     {"start", file.decoder_strip},
                     {"stop", 0}});
  }
  return Steps("decoders", std::move(steps));
}

Json MetaspaceJson(const Metaspace& metaspace) {
  const char* prepend = "never";
  if (metaspace.prepend == Metaspace::Prepend::kAlways) prepend = "always";
  if (metaspace.prepend == Metaspace::Prepend::kFirst) prepend = "first";
  return {{"type", "Metaspace"},
          {"replacement", metaspace.replacement},
          {"prepend_scheme", prepend},
          {"split", metaspace.split}};
}

Json PreTokenizerJson(const TokenizerFile& file) {
  const PreTokenizer& pre_tokenizer = file.pre_tokenizer;
  if (pre_tokenizer.metaspace) return MetaspaceJson(*pre_tokenizer.metaspace);
  Json steps = Json::array();
  const auto& splits = pre_tokenizer.splits;
  for (size_t i = 0; i <= splits.size(); ++i) {
    if (pre_tokenizer.split_digits == i) {
      steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    }
    if (i == splits.size()) break;
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", splits[i].pattern()}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  if (file.alphabet == Alphabet::kByteLevel) steps.push_back(ByteLevel());
  if (steps.empty()) return nullptr;
  return Steps("pretokenizers", std::move(steps));
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
                    {"single_word", token.single_word},
                    {"lstrip", token.left_blanks},
                    {"rstrip", token.right_blanks},
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
          {"fuse_unk", file.fuse_unknown},
          {"byte_fallback", file.byte_fallback},
          {"ignore_merges", file.ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

}  // namespace

std::string WriteTokenizerFile(const TokenizerFile& file) {
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", AddedTokensJson(file.added_tokens)},
                     {"normalizer", NormalizerJson(file.normalizer)},
                     {"pre_tokenizer", PreTokenizerJson(file)},
                     {"post_processor", PostProcessorJson(file)},
                     {"decoder", DecoderJson(file)},
                     {"model", ModelJson(file)}};
  return json.dump();
}

}  // namespace espalier
