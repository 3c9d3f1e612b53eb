#include "common/tokenizer/tokenizer_file.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/json_object.h"

namespace espalier {
namespace {

using nlohmann::json;

absl::Status Unsupported(std::string_view path, const json& value) {
  std::string shown = value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true);
  constexpr size_t kMaxShown = 300;
  if (shown.size() > kMaxShown) shown = shown.substr(0, kMaxShown) + "...";
  return absl::UnimplementedError(
      absl::StrCat(std::string(path), ": not supported: ", shown));
}

absl::StatusOr<TokenId> ParseTokenId(std::string_view path, int64_t id) {
  if (id < 0 || id > kMaxTokenId) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(path), ": token id ", id,
                     " is not within 0 and ", kMaxTokenId));
  }
  return static_cast<TokenId>(id);
}

absl::StatusOr<Vocabulary> ParseVocabulary(const JsonObject& model) {
  ASSIGN_OR_RETURN(const JsonObject tokens, model.Object("vocab"));
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.value().size());
  for (const auto& [token, value] : tokens.value().items()) {
    ASSIGN_OR_RETURN(const int64_t id, tokens.Integer(token));
    ASSIGN_OR_RETURN(vocabulary[token], ParseTokenId(tokens.PathOf(token), id));
  }
  return vocabulary;
}

// One merge is ["a", "b"], or "a b" in older files.
absl::StatusOr<Merges> ParseMerges(const JsonObject& model) {
  ASSIGN_OR_RETURN(const json* entries, model.Array("merges"));
  Merges merges;
  merges.reserve(entries->size());
  for (const json& entry : *entries) {
    const std::string* left = nullptr;
    const std::string* right = nullptr;
    if (entry.is_array() && entry.size() == 2) {
      left = entry[0].get_ptr<const std::string*>();
      right = entry[1].get_ptr<const std::string*>();
    }
    if (left != nullptr && right != nullptr) {
      merges.emplace_back(*left, *right);
      continue;
    }
    const auto* text = entry.get_ptr<const std::string*>();
    auto merge = ParseMerge(text == nullptr ? "" : *text);
    if (!merge.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.PathOf("merges"), "[", merges.size(),
                       "]: must be [\"a\", \"b\"] or \"a b\""));
    }
    merges.push_back(*std::move(merge));
  }
  return merges;
}

absl::Status ParseModel(const JsonObject& document, TokenizerFile& file) {
  ASSIGN_OR_RETURN(const JsonObject model, document.Object("model"));
  // GPT-2's own file has no type.
  ASSIGN_OR_RETURN(const std::string type, model.String("type"));
  if (!type.empty() && type != "BPE") {
    return Unsupported(model.PathOf("type"), *model.Find("type"));
  }
  ASSIGN_OR_RETURN(file.ignore_merges, model.Bool("ignore_merges"));
  ASSIGN_OR_RETURN(const bool byte_fallback, model.Bool("byte_fallback"));
  if (byte_fallback) {
    return Unsupported(model.PathOf("byte_fallback"),
                       *model.Find("byte_fallback"));
  }
  for (std::string_view name :
       {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string affix, model.String(name));
    if (!affix.empty()) {
      return Unsupported(model.PathOf(name), *model.Find(name));
    }
  }
  if (const json* dropout = model.Find("dropout");
      dropout != nullptr && *dropout != 0) {
    return Unsupported(model.PathOf("dropout"), *dropout);
  }
  ASSIGN_OR_RETURN(file.unknown_token, model.String("unk_token"));
  ASSIGN_OR_RETURN(file.vocabulary, ParseVocabulary(model));
  ASSIGN_OR_RETURN(file.merges, ParseMerges(model));
  return absl::OkStatus();
}

absl::StatusOr<AddedToken> ParseAddedToken(const JsonObject& entry) {
  AddedToken token;
  ASSIGN_OR_RETURN(const int64_t id, entry.Integer("id"));
  ASSIGN_OR_RETURN(token.id, ParseTokenId(entry.PathOf("id"), id));
  ASSIGN_OR_RETURN(token.content, entry.String("content"));
  if (token.content.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.PathOf("content"), ": must not be empty"));
  }
  ASSIGN_OR_RETURN(token.special, entry.Bool("special"));
  ASSIGN_OR_RETURN(token.normalized, entry.Bool("normalized"));
  for (std::string_view name : {"single_word", "lstrip", "rstrip"}) {
    ASSIGN_OR_RETURN(const bool wanted, entry.Bool(name));
    if (wanted) return Unsupported(entry.PathOf(name), *entry.Find(name));
  }
  return token;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(
    const JsonObject& document) {
  std::vector<AddedToken> tokens;
  if (document.Find("added_tokens") == nullptr) return tokens;
  ASSIGN_OR_RETURN(const json* entries, document.Array("added_tokens"));
  for (const json& value : *entries) {
    ASSIGN_OR_RETURN(const JsonObject entry,
                     JsonObject::Of(value, absl::StrCat("added_tokens[",
                                                        tokens.size(), "]")));
    ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(entry));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Nullopt: another pattern.
absl::StatusOr<std::optional<WordPattern>> ParseSplit(const JsonObject& step) {
  ASSIGN_OR_RETURN(const JsonObject pattern, step.Object("pattern"));
  ASSIGN_OR_RETURN(const std::string regex, pattern.String("Regex"));
  ASSIGN_OR_RETURN(const std::string behavior, step.String("behavior"));
  ASSIGN_OR_RETURN(const bool invert, step.Bool("invert"));
  if (behavior != "Isolated" || invert) return std::nullopt;
  if (regex == kQwen2Pattern) return WordPattern::kQwen2;
  if (regex == kLlama3Pattern) return WordPattern::kLlama3;
  return std::nullopt;
}

// The steps of a Sequence, or the single step.
absl::StatusOr<std::vector<JsonObject>> ParseSteps(const JsonObject& outer) {
  ASSIGN_OR_RETURN(const std::string outer_type, outer.String("type"));
  std::vector<JsonObject> steps;
  if (outer_type != "Sequence") {
    steps.push_back(outer);
    return steps;
  }
  ASSIGN_OR_RETURN(const json* entries, outer.Array("pretokenizers"));
  for (const json& entry : *entries) {
    ASSIGN_OR_RETURN(
        JsonObject step,
        JsonObject::Of(entry, absl::StrCat(outer.PathOf("pretokenizers"), "[",
                                           steps.size(), "]")));
    steps.push_back(std::move(step));
  }
  return steps;
}

// Accepts Digits, a Split of Qwen2 or Llama 3, and ByteLevel, in this order.
// ByteLevel is required, and splits words itself unless there is a Split.
absl::StatusOr<PreTokenizer> ParsePreTokenizer(const JsonObject& document) {
  ASSIGN_OR_RETURN(const JsonObject outer, document.Object("pre_tokenizer"));
  ASSIGN_OR_RETURN(const std::vector<JsonObject> steps, ParseSteps(outer));
  PreTokenizer result;
  bool split = false, byte_level = false;
  for (const JsonObject& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, step.String("type"));
    if (type == "Digits" && !split && !byte_level) {
      ASSIGN_OR_RETURN(result.split_digits, step.Bool("individual_digits"));
      if (result.split_digits) continue;
    }
    if (type == "Split" && !split && !byte_level) {
      ASSIGN_OR_RETURN(const std::optional<WordPattern> words,
                       ParseSplit(step));
      split = words.has_value();
      result.words = words.value_or(result.words);
      if (split) continue;
    }
    if (type == "ByteLevel" && !byte_level) {
      byte_level = true;
      ASSIGN_OR_RETURN(const bool prefix_space, step.Bool("add_prefix_space"));
      bool use_regex = true;
      if (step.Find("use_regex") != nullptr) {
        ASSIGN_OR_RETURN(use_regex, step.Bool("use_regex"));
      }
      if (!use_regex && !split) result.words = WordPattern::kWhole;
      if (!prefix_space && !(use_regex && split)) continue;
    }
    return Unsupported(step.PathOf("type"), step.value());
  }
  if (!byte_level) return Unsupported("pre_tokenizer", outer.value());
  return result;
}

// Accepts no normalizer, or form C.
absl::StatusOr<bool> ParseNormalizer(const JsonObject& document) {
  if (document.Find("normalizer") == nullptr) return false;
  ASSIGN_OR_RETURN(const JsonObject normalizer, document.Object("normalizer"));
  ASSIGN_OR_RETURN(const std::string type, normalizer.String("type"));
  if (type == "NFC") return true;
  return Unsupported("normalizer", normalizer.value());
}

absl::Status CheckDecoder(const JsonObject& document) {
  ASSIGN_OR_RETURN(const JsonObject decoder, document.Object("decoder"));
  ASSIGN_OR_RETURN(const std::string type, decoder.String("type"));
  if (type != "ByteLevel") return Unsupported("decoder", decoder.value());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::pair<std::string, std::string>> ParseMerge(
    std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space != text.rfind(' ')) {
    return absl::InvalidArgumentError("must be \"a b\"");
  }
  return std::pair(std::string(text.substr(0, space)),
                   std::string(text.substr(space + 1)));
}

absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text) {
  ASSIGN_OR_RETURN(const json parsed, ParseJson(text));
  ASSIGN_OR_RETURN(const JsonObject document, JsonObject::Of(parsed, ""));
  RETURN_IF_ERROR(CheckDecoder(document));
  TokenizerFile file;
  ASSIGN_OR_RETURN(file.normalize_to_nfc, ParseNormalizer(document));
  ASSIGN_OR_RETURN(file.pre_tokenizer, ParsePreTokenizer(document));
  RETURN_IF_ERROR(ParseModel(document, file));
  ASSIGN_OR_RETURN(file.added_tokens, ParseAddedTokens(document));
  return file;
}

}  // namespace espalier
