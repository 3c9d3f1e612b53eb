#include "common/tokenizer/tokenizer_file.h"

#include <algorithm>
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

// Returns the error Unsupported for a member that is there.
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

// Comes first: of another kind nothing else would be right either.
absl::Status CheckKind(const JsonValue& document) {
  ASSIGN_OR_RETURN(const JsonValue model, document.Member("model"));
  // GPT-2's own file has no type.
  ASSIGN_OR_RETURN(const std::string type, model.TextOr("type", "BPE"));
  if (type == "BPE") return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonValue field, model.Member("type"));
  return absl::UnimplementedError(absl::StrCat(
      field.source(), ": a tokenizer of the kind ", type,
      " is not supported, only BPE. Choose a model with a BPE tokenizer, such "
      "as those of Llama, Mistral, Qwen, Gemma and SmolLM"));
}

absl::Status ParseModel(const JsonValue& document, TokenizerFile& file) {
  ASSIGN_OR_RETURN(const JsonValue model, document.Member("model"));
  ASSIGN_OR_RETURN(file.ignore_merges, model.BoolOr("ignore_merges", false));
  ASSIGN_OR_RETURN(file.byte_fallback, model.BoolOr("byte_fallback", false));
  if (file.byte_fallback && file.alphabet == Alphabet::kByteLevel) {
    return UnsupportedMember(model, "byte_fallback");
  }
  ASSIGN_OR_RETURN(file.fuse_unknown, model.BoolOr("fuse_unk", false));
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
  ASSIGN_OR_RETURN(token.single_word, entry.BoolOr("single_word", false));
  ASSIGN_OR_RETURN(token.left_blanks, entry.BoolOr("lstrip", false));
  ASSIGN_OR_RETURN(token.right_blanks, entry.BoolOr("rstrip", false));
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

// Reads the steps of a Sequence, or the single step.
absl::StatusOr<std::vector<JsonValue>> ParseSteps(const JsonValue& outer) {
  ASSIGN_OR_RETURN(const std::string outer_type, ReadType(outer));
  if (outer_type != "Sequence") return std::vector<JsonValue>{outer};
  ASSIGN_OR_RETURN(const JsonValue list, outer.Member("pretokenizers"));
  return list.Items();
}

// Returns whether text becomes bytes, or bytes text.
absl::StatusOr<bool> HasByteLevel(const JsonValue& document) {
  if (document.Has("decoder")) {
    ASSIGN_OR_RETURN(const JsonValue decoder, document.Member("decoder"));
    ASSIGN_OR_RETURN(const std::string type, ReadType(decoder));
    if (type == "ByteLevel") return true;
  }
  if (!document.Has("pre_tokenizer")) return false;
  ASSIGN_OR_RETURN(const JsonValue outer, document.Member("pre_tokenizer"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> steps, ParseSteps(outer));
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, ReadType(step));
    if (type == "ByteLevel") return true;
  }
  return false;
}

// Accepts Splits by regular expressions, among which may be one Digits, and
// then ByteLevel.
// ByteLevel splits words itself if it wants to.
absl::StatusOr<PreTokenizer> ParseByteLevelSteps(const JsonValue& outer) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> steps, ParseSteps(outer));
  PreTokenizer result;
  bool byte_level = false;
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, ReadType(step));
    if (byte_level) return Unsupported(step);
    if (type == "Digits" && !result.split_digits) {
      ASSIGN_OR_RETURN(const bool each,
                       step.BoolOr("individual_digits", false));
      if (!each) return Unsupported(step);
      result.split_digits = result.splits.size();
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

absl::StatusOr<Metaspace> ParseMetaspace(const JsonValue& step) {
  Metaspace result;
  ASSIGN_OR_RETURN(result.replacement, step.TextOr("replacement", ""));
  ASSIGN_OR_RETURN(result.split, step.BoolOr("split", true));
  ASSIGN_OR_RETURN(const std::string scheme,
                   step.TextOr("prepend_scheme", "always"));
  if (result.replacement.empty()) {
    return step.MemberError("replacement", "must not be empty");
  }
  if (scheme == "always") {
    result.prepend = Metaspace::Prepend::kAlways;
  } else if (scheme == "first") {
    result.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    result.prepend = Metaspace::Prepend::kNever;
  } else {
    return UnsupportedMember(step, "prepend_scheme");
  }
  return result;
}

// Returns whether the step cuts at spaces, of which the normalizer leaves none
// (Gemma).
bool CutsNothing(const JsonValue& step, const Normalizer& normalizer) {
  return step.json() == json{{"type", "Split"},
                             {"pattern", {{"String", " "}}},
                             {"behavior", "MergedWithPrevious"},
                             {"invert", false}} &&
         !normalizer.steps().empty() &&
         normalizer.steps().back().kind == Normalizer::Kind::kReplace &&
         normalizer.steps().back().from == " " &&
         normalizer.steps().back().to.find(' ') == std::string::npos;
}

// Parses the pre-tokenizer of an alphabet of characters: none, or Metaspace.
absl::StatusOr<PreTokenizer> ParseCharacterSteps(const JsonValue& document,
                                                 const Normalizer& normalizer) {
  PreTokenizer result;
  if (!document.Has("pre_tokenizer")) return result;
  ASSIGN_OR_RETURN(const JsonValue step, document.Member("pre_tokenizer"));
  ASSIGN_OR_RETURN(const std::string type, ReadType(step));
  if (CutsNothing(step, normalizer)) return result;
  if (type != "Metaspace") return Unsupported(step);
  ASSIGN_OR_RETURN(result.metaspace, ParseMetaspace(step));
  return result;
}

absl::StatusOr<PreTokenizer> ParsePreTokenizer(const JsonValue& document,
                                               const TokenizerFile& file) {
  if (file.alphabet == Alphabet::kCharacters) {
    return ParseCharacterSteps(document, file.normalizer);
  }
  ASSIGN_OR_RETURN(const JsonValue outer, document.Member("pre_tokenizer"));
  return ParseByteLevelSteps(outer);
}

// {"pattern": {"String": from}, "content": to}
absl::StatusOr<Normalizer::Step> ParseReplace(const JsonValue& step) {
  ASSIGN_OR_RETURN(const JsonValue pattern, step.Member("pattern"));
  if (!pattern.Has("String")) return Unsupported(step);
  ASSIGN_OR_RETURN(std::string from, pattern.TextOr("String", ""));
  ASSIGN_OR_RETURN(std::string to, step.TextOr("content", ""));
  if (from.empty()) return Unsupported(step);
  return Normalizer::Step{.kind = Normalizer::Kind::kReplace,
                          .from = std::move(from),
                          .to = std::move(to)};
}

absl::StatusOr<Normalizer::Step> ParseNormalizerStep(const JsonValue& step) {
  ASSIGN_OR_RETURN(const std::string type, ReadType(step));
  for (NormalForm form : kNormalForms) {
    if (type == NameOf(form)) {
      return Normalizer::Step{.kind = Normalizer::Kind::kForm, .form = form};
    }
  }
  if (type == "Lowercase") {
    return Normalizer::Step{.kind = Normalizer::Kind::kLower};
  }
  if (type == "Replace") return ParseReplace(step);
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string to, step.TextOr("prepend", ""));
    return Normalizer::Step{.kind = Normalizer::Kind::kPrepend,
                            .to = std::move(to)};
  }
  if (type != "Strip") return Unsupported(step);
  Normalizer::Step strip = {.kind = Normalizer::Kind::kStrip};
  ASSIGN_OR_RETURN(strip.left, step.BoolOr("strip_left", false));
  ASSIGN_OR_RETURN(strip.right, step.BoolOr("strip_right", false));
  return strip;
}

absl::StatusOr<Normalizer> ParseNormalizer(const JsonValue& document) {
  Normalizer result;
  if (!document.Has("normalizer")) return result;
  ASSIGN_OR_RETURN(const JsonValue outer, document.Member("normalizer"));
  ASSIGN_OR_RETURN(const std::string type, ReadType(outer));
  std::vector<JsonValue> steps = {outer};
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const JsonValue list, outer.Member("normalizers"));
    ASSIGN_OR_RETURN(steps, list.Items());
  }
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(Normalizer::Step parsed, ParseNormalizerStep(step));
    result.Add(std::move(parsed));
  }
  return result;
}

// Reads the tokens before the text in ["<s>", $A]; nothing may follow it.
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

// {"type": "Strip", "content": " ", "start": n, "stop": 0}
absl::StatusOr<int32_t> ParseDecoderStrip(const JsonValue& step) {
  ASSIGN_OR_RETURN(const std::string content, step.TextOr("content", ""));
  ASSIGN_OR_RETURN(const JsonValue start, step.Member("start"));
  ASSIGN_OR_RETURN(const JsonValue stop, step.Member("stop"));
  constexpr int64_t kMax = 1 << 16;
  ASSIGN_OR_RETURN(const int64_t at_start, start.Integer(0, kMax));
  ASSIGN_OR_RETURN(const int64_t at_end, stop.Integer(0, kMax));
  if (content != " " || at_end != 0) return Unsupported(step);
  return static_cast<int32_t>(at_start);
}

// Accepts Replaces, ByteFallback, Fuse and Strip, in this order; the first and
// the last may be missing.
absl::Status ParseDecoderSequence(const JsonValue& decoder,
                                  TokenizerFile& file) {
  ASSIGN_OR_RETURN(const JsonValue list, decoder.Member("decoders"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> steps, list.Items());
  const std::vector<std::string> order = {"Replace", "ByteFallback", "Fuse",
                                          "Strip"};
  std::string last = "Replace";
  for (const JsonValue& step : steps) {
    ASSIGN_OR_RETURN(const std::string type, ReadType(step));
    const auto place = std::find(order.begin(), order.end(), type);
    const auto before = std::find(order.begin(), order.end(), last);
    const bool follows =
        type == "Replace" ? before == order.begin() : place == before + 1;
    if (place == order.end() || !follows) return Unsupported(step);
    last = type;
    if (type == "Replace") {
      ASSIGN_OR_RETURN(Normalizer::Step replace, ParseReplace(step));
      file.decoder.Add(std::move(replace));
    } else if (type == "Strip") {
      ASSIGN_OR_RETURN(file.decoder_strip, ParseDecoderStrip(step));
    }
  }
  if (last != "Fuse" && last != "Strip") return Unsupported(decoder);
  return absl::OkStatus();
}

absl::Status ParseDecoder(const JsonValue& document, TokenizerFile& file) {
  ASSIGN_OR_RETURN(const JsonValue decoder, document.Member("decoder"));
  ASSIGN_OR_RETURN(const std::string type, ReadType(decoder));
  const bool byte_level = file.alphabet == Alphabet::kByteLevel;
  if (byte_level && type == "ByteLevel") return absl::OkStatus();
  if (byte_level || type != "Sequence") return Unsupported(decoder);
  return ParseDecoderSequence(decoder, file);
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
  RETURN_IF_ERROR(CheckKind(document));
  TokenizerFile file;
  ASSIGN_OR_RETURN(const bool byte_level, HasByteLevel(document));
  file.alphabet = byte_level ? Alphabet::kByteLevel : Alphabet::kCharacters;
  RETURN_IF_ERROR(ParseDecoder(document, file));
  ASSIGN_OR_RETURN(file.normalizer, ParseNormalizer(document));
  ASSIGN_OR_RETURN(file.pre_tokenizer, ParsePreTokenizer(document, file));
  ASSIGN_OR_RETURN(file.prefix, ParsePostProcessor(document));
  RETURN_IF_ERROR(ParseModel(document, file));
  ASSIGN_OR_RETURN(file.added_tokens, ParseAddedTokens(document));
  return file;
}

}  // namespace espalier
