#include "common/tokenizer/tokenizer_file.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"

namespace espalier {
namespace {

using nlohmann::json;

absl::Status Unsupported(const JsonValue& value) {
  std::string shown =
      value.json().dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true);
  constexpr size_t kMaxShown = 300;
  if (shown.size() > kMaxShown) shown = shown.substr(0, kMaxShown) + "...";
  return absl::UnimplementedError(
      absl::StrCat(value.source(), ": not supported: ", shown));
}

// As Unsupported(value), of a member that is there.
absl::Status UnsupportedMember(const JsonValue& object, std::string_view name) {
  ASSIGN_OR_RETURN(const JsonValue member, object.Member(name));
  return Unsupported(member);
}

// "" if there is none.
absl::StatusOr<std::string> ReadType(const JsonValue& object) {
  return object.TextOr("type", "");
}

absl::StatusOr<Vocabulary> ParseVocabulary(const JsonValue& model) {
  ASSIGN_OR_RETURN(const JsonValue tokens, model.Member("vocab"));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, tokens.MemberNames());
  Vocabulary vocabulary;
  vocabulary.reserve(names.size());
  for (const std::string& token : names) {
    ASSIGN_OR_RETURN(const JsonValue id, tokens.Member(token));
    ASSIGN_OR_RETURN(vocabulary[token], id.Integer(0, kMaxTokenId));
  }
  return vocabulary;
}

// One merge is ["a", "b"], or "a b" in older files.
absl::StatusOr<Merges> ParseMerges(const JsonValue& model) {
  ASSIGN_OR_RETURN(const JsonValue list, model.Member("merges"));
  ASSIGN_OR_RETURN(const size_t size, list.ListSize());
  Merges merges;
  merges.reserve(size);
  for (const json& entry : list.json()) {
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
      return list.At(merges.size()).Error("must be [\"a\", \"b\"] or \"a b\"");
    }
    merges.push_back(*std::move(merge));
  }
  return merges;
}

absl::Status ParseModel(const JsonValue& document, TokenizerFile& file) {
  ASSIGN_OR_RETURN(const JsonValue model, document.Member("model"));
  // GPT-2's own file has no type.
  ASSIGN_OR_RETURN(const std::string type, model.TextOr("type", "BPE"));
  if (type != "BPE") return UnsupportedMember(model, "type");
  ASSIGN_OR_RETURN(file.ignore_merges, model.BoolOr("ignore_merges", false));
  ASSIGN_OR_RETURN(const bool byte_fallback,
                   model.BoolOr("byte_fallback", false));
  if (byte_fallback) return UnsupportedMember(model, "byte_fallback");
  for (std::string_view name :
       {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string affix, model.TextOr(name, ""));
    if (!affix.empty()) return UnsupportedMember(model, name);
  }
  if (model.Has("dropout") && model.json()["dropout"] != 0) {
    return UnsupportedMember(model, "dropout");
  }
  ASSIGN_OR_RETURN(file.unknown_token, model.TextOr("unk_token", ""));
  ASSIGN_OR_RETURN(file.vocabulary, ParseVocabulary(model));
  ASSIGN_OR_RETURN(file.merges, ParseMerges(model));
  return absl::OkStatus();
}

absl::StatusOr<AddedToken> ParseAddedToken(const JsonValue& entry) {
  AddedToken token;
  ASSIGN_OR_RETURN(const JsonValue id, entry.Member("id"));
  ASSIGN_OR_RETURN(token.id, id.Integer(0, kMaxTokenId));
  ASSIGN_OR_RETURN(token.content, entry.TextOr("content", ""));
  if (token.content.empty()) {
    return entry.MemberError("content", "must not be empty");
  }
  ASSIGN_OR_RETURN(token.special, entry.BoolOr("special", false));
  ASSIGN_OR_RETURN(token.normalized, entry.BoolOr("normalized", false));
  for (std::string_view name : {"single_word", "lstrip", "rstrip"}) {
    ASSIGN_OR_RETURN(const bool wanted, entry.BoolOr(name, false));
    if (wanted) return UnsupportedMember(entry, name);
  }
  return token;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(
    const JsonValue& document) {
  std::vector<AddedToken> tokens;
  if (!document.Has("added_tokens")) return tokens;
  ASSIGN_OR_RETURN(const JsonValue list, document.Member("added_tokens"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, list.Items());
  for (const JsonValue& entry : entries) {
    ASSIGN_OR_RETURN(tokens.emplace_back(), ParseAddedToken(entry));
  }
  return tokens;
}

absl::StatusOr<SplitPattern> ParseSplit(const JsonValue& step) {
  ASSIGN_OR_RETURN(const JsonValue pattern, step.Member("pattern"));
  ASSIGN_OR_RETURN(const std::string behavior, step.TextOr("behavior", ""));
  ASSIGN_OR_RETURN(const bool invert, step.BoolOr("invert", false));
  if (!pattern.Has("Regex") || behavior != "Isolated" || invert) {
    return Unsupported(step);
  }
  ASSIGN_OR_RETURN(const JsonValue regex, pattern.Member("Regex"));
  ASSIGN_OR_RETURN(const std::string text, regex.Text());
  absl::StatusOr<SplitPattern> split = SplitPattern::Parse(text);
  if (split.ok()) return split;
  return absl::UnimplementedError(
      absl::StrCat(regex.source(), ": ", split.status().message()));
}

// The steps of a Sequence, or the single step.
absl::StatusOr<std::vector<JsonValue>> ParseSteps(const JsonValue& outer) {
  ASSIGN_OR_RETURN(const std::string outer_type, ReadType(outer));
  if (outer_type != "Sequence") return std::vector<JsonValue>{outer};
  ASSIGN_OR_RETURN(const JsonValue list, outer.Member("pretokenizers"));
  return list.Items();
}

// Accepts Digits, Splits by regular expressions, and ByteLevel, in this order.
// ByteLevel is required, and splits words itself if it wants to.
absl::StatusOr<PreTokenizer> ParsePreTokenizer(const JsonValue& document) {
  ASSIGN_OR_RETURN(const JsonValue outer, document.Member("pre_tokenizer"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> steps, ParseSteps(outer));
  PreTokenizer result;
  bool byte_level = false;
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, ReadType(step));
    if (byte_level) return Unsupported(step);
    if (type == "Digits" && result.splits.empty() && !result.split_digits) {
      ASSIGN_OR_RETURN(result.split_digits,
                       step.BoolOr("individual_digits", false));
      if (!result.split_digits) return Unsupported(step);
    } else if (type == "Split") {
      ASSIGN_OR_RETURN(SplitPattern split, ParseSplit(step));
      result.splits.push_back(std::move(split));
    } else if (type == "ByteLevel") {
      byte_level = true;
      ASSIGN_OR_RETURN(const bool prefix_space,
                       step.BoolOr("add_prefix_space", false));
      if (prefix_space) return Unsupported(step);
      ASSIGN_OR_RETURN(const bool use_regex, step.BoolOr("use_regex", true));
      if (!use_regex) continue;
      ASSIGN_OR_RETURN(SplitPattern split, SplitPattern::Parse(kGpt2Pattern));
      result.splits.push_back(std::move(split));
    } else {
      return Unsupported(step);
    }
  }
  if (!byte_level) return Unsupported(outer);
  return result;
}

// Accepts no normalizer, or form C.
absl::StatusOr<bool> ParseNormalizer(const JsonValue& document) {
  if (!document.Has("normalizer")) return false;
  ASSIGN_OR_RETURN(const JsonValue normalizer, document.Member("normalizer"));
  ASSIGN_OR_RETURN(const std::string type, ReadType(normalizer));
  if (type == "NFC") return true;
  return Unsupported(normalizer);
}

// The tokens before the text in ["<s>", $A]; nothing may follow it.
absl::StatusOr<std::vector<TokenId>> ParseTemplate(const JsonValue& processor) {
  ASSIGN_OR_RETURN(const JsonValue single, processor.Member("single"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> pieces, single.Items());
  std::vector<TokenId> prefix;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool is_last = i + 1 == pieces.size();
    if (is_last != pieces[i].Has("Sequence")) return Unsupported(processor);
    if (is_last) break;
    ASSIGN_OR_RETURN(const JsonValue piece, pieces[i].Member("SpecialToken"));
    ASSIGN_OR_RETURN(const std::string name, piece.TextOr("id", ""));
    ASSIGN_OR_RETURN(const JsonValue tokens,
                     processor.Member("special_tokens"));
    ASSIGN_OR_RETURN(const JsonValue token, tokens.Member(name));
    ASSIGN_OR_RETURN(const JsonValue ids, token.Member("ids"));
    ASSIGN_OR_RETURN(const std::vector<JsonValue> list, ids.Items());
    for (const JsonValue& id : list) {
      ASSIGN_OR_RETURN(prefix.emplace_back(), id.Integer(0, kMaxTokenId));
    }
  }
  return prefix;
}

// Accepts none, ByteLevel (which changes offsets only), a template with tokens
// before the text, or ByteLevel and then a template.
absl::StatusOr<std::vector<TokenId>> ParsePostProcessor(
    const JsonValue& document) {
  std::vector<TokenId> prefix;
  if (!document.Has("post_processor")) return prefix;
  ASSIGN_OR_RETURN(const JsonValue outer, document.Member("post_processor"));
  ASSIGN_OR_RETURN(const std::string outer_type, ReadType(outer));
  std::vector<JsonValue> steps = {outer};
  if (outer_type == "Sequence") {
    ASSIGN_OR_RETURN(const JsonValue list, outer.Member("processors"));
    ASSIGN_OR_RETURN(steps, list.Items());
  }
  bool has_template = false;
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, ReadType(step));
    if (type == "ByteLevel" && !has_template) continue;
    if (type != "TemplateProcessing" || has_template) return Unsupported(step);
    has_template = true;
    ASSIGN_OR_RETURN(prefix, ParseTemplate(step));
  }
  return prefix;
}

absl::Status CheckDecoder(const JsonValue& document) {
  ASSIGN_OR_RETURN(const JsonValue decoder, document.Member("decoder"));
  ASSIGN_OR_RETURN(const std::string type, ReadType(decoder));
  if (type != "ByteLevel") return Unsupported(decoder);
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
  ASSIGN_OR_RETURN(const json parsed, ParseJsonObject(text, /*source=*/""));
  const JsonValue document(parsed);
  RETURN_IF_ERROR(CheckDecoder(document));
  TokenizerFile file;
  ASSIGN_OR_RETURN(file.normalize_to_nfc, ParseNormalizer(document));
  ASSIGN_OR_RETURN(file.pre_tokenizer, ParsePreTokenizer(document));
  ASSIGN_OR_RETURN(file.prefix, ParsePostProcessor(document));
  RETURN_IF_ERROR(ParseModel(document, file));
  ASSIGN_OR_RETURN(file.added_tokens, ParseAddedTokens(document));
  return file;
}

}  // namespace espalier
