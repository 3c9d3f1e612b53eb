#include "common/model/files/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_end_tokens.h"
#include "common/model/files/gguf_tokenizer_families.h"
#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"

namespace espalier {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";

// The numbers are those of the file.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,  // fills the vocabulary up: never in a text
  kByte = 6,
};

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 64;
  return absl::StrCat(
      "\"", absl::CHexEscape(std::string(text.substr(0, kMaxShown))), "\"");
}

absl::Status UnknownName(const char* key, std::string_view name,
                         const std::string& known) {
  return absl::UnimplementedError(absl::StrCat(
      key, " ", Quoted(name), " is not implemented; known: ", known));
}

absl::StatusOr<GgufTokenizerFamily> ReadFamily(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view name,
                   file.Get<std::string_view>("tokenizer.ggml.pre"));
  const GgufTokenizerFamily* family = FindGgufTokenizerFamily(name);
  if (family != nullptr) return *family;
  return file.Error(UnknownName("tokenizer.ggml.pre", name,
                                absl::StrJoin(GgufTokenizerNames(), ", ")));
}

absl::Status AddToken(std::string_view token, TokenType type,
                      TokenizerFile& tokenizer, TokenId id) {
  const std::string text(token);
  if (RepairUtf8(token) != text) {
    return absl::InvalidArgumentError("is not UTF-8");
  }
  const bool is_text =
      type == TokenType::kNormal || type == TokenType::kUserDefined;
  if (is_text && IsGgufEndToken(token)) type = TokenType::kControl;
  switch (type) {
    case TokenType::kUnused:
      return absl::OkStatus();
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUserDefined:
      if (text.empty()) return absl::InvalidArgumentError("is empty");
      tokenizer.added_tokens.push_back(
          {.id = id,
           .content = text,
           .special = type != TokenType::kUserDefined});
      break;
    case TokenType::kNormal:
      break;
    case TokenType::kByte:
      if (ByteOfFallback(text).has_value()) break;
      return absl::InvalidArgumentError("is not a byte");
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("has the unknown type ", static_cast<int32_t>(type)));
  }
  if (!tokenizer.vocabulary.emplace(text, id).second) {
    return absl::InvalidArgumentError("is there twice");
  }
  return absl::OkStatus();
}

absl::Status AddVocabulary(const GgufFile& file, TokenizerFile& tokenizer) {
  ASSIGN_OR_RETURN(const auto tokens,
                   file.Get<std::vector<std::string_view>>(kTokens));
  ASSIGN_OR_RETURN(const auto types, file.Get<GgufNumbers<int32_t>>(kTypes));
  if (tokens.empty() || tokens.size() - 1 > kMaxTokenId ||
      types.size() != tokens.size()) {
    return file.Error(absl::InvalidArgumentError(absl::StrCat(
        std::string(kTokens), " has ", tokens.size(), " entries, ",
        std::string(kTypes), " ", types.size(),
        ": they must have equally many, ", "1 .. ", kMaxTokenId + 1)));
  }
  tokenizer.vocabulary.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const absl::Status added =
        AddToken(tokens[i], static_cast<TokenType>(types[i]), tokenizer,
                 static_cast<TokenId>(i));
    if (!added.ok()) {
      return file.Error(absl::InvalidArgumentError(
          absl::StrCat(std::string(kTokens), "[", i, "], ", Quoted(tokens[i]),
                       ", ", std::string(added.message()))));
    }
  }
  return absl::OkStatus();
}

absl::Status AddMerges(const GgufFile& file, TokenizerFile& tokenizer) {
  ASSIGN_OR_RETURN(const auto merges,
                   file.Get<std::vector<std::string_view>>(kMergesKey));
  tokenizer.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    auto merge = ParseMerge(merges[i]);
    if (!merge.ok()) {
      return file.Error(absl::InvalidArgumentError(
          absl::StrCat(std::string(kMergesKey), "[", i, "] ",
                       std::string(merge.status().message()))));
    }
    tokenizer.merges.push_back(*std::move(merge));
  }
  return absl::OkStatus();
}

// Reads the names that the chat template has for the tokens.
absl::Status ReadNamedTokens(const GgufFile& file,
                             TokenizerSettings& settings) {
  ASSIGN_OR_RETURN(const auto tokens,
                   file.Get<std::vector<std::string_view>>(kTokens));
  for (const auto& [key, name] :
       {std::pair("tokenizer.ggml.bos_token_id", "bos_token"),
        std::pair("tokenizer.ggml.eos_token_id", "eos_token"),
        std::pair("tokenizer.ggml.padding_token_id", "pad_token"),
        std::pair("tokenizer.ggml.unknown_token_id", "unk_token")}) {
    const absl::StatusOr<int64_t> id = file.Get<int64_t>(key);
    if (absl::IsNotFound(id.status())) continue;
    RETURN_IF_ERROR(id.status());
    if (*id < 0 || *id >= static_cast<int64_t>(tokens.size())) {
      return file.Error(absl::InvalidArgumentError(
          absl::StrCat(key, " is ", *id, ", not in 0 .. ", tokens.size() - 1)));
    }
    settings.named_tokens[name] = std::string(tokens[*id]);
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerSettings> ReadSettings(const GgufFile& file) {
  TokenizerSettings settings;
  ASSIGN_OR_RETURN(settings.eos_ids, ReadGgufEosIds(file, kMaxTokenId + 1));
  ASSIGN_OR_RETURN(const auto tokens,
                   file.Get<std::vector<std::string_view>>(kTokens));
  for (const TokenId id : FindGgufEndTokens(tokens)) {
    settings.eos_ids.push_back(id);
  }
  RETURN_IF_ERROR(ReadNamedTokens(file, settings));
  const auto jinja = file.Get<std::string_view>("tokenizer.chat_template");
  if (jinja.ok()) {
    settings.chat_template = std::string(*jinja);
  } else if (!absl::IsNotFound(jinja.status())) {
    return jinja.status();
  }
  return settings;
}

absl::StatusOr<bool> FlagOr(const GgufFile& file, std::string_view key,
                            bool fallback) {
  const absl::StatusOr<bool> flag = file.Get<bool>(key);
  return absl::IsNotFound(flag.status()) ? fallback : flag;
}

// Adds the BOS token before texts, if there is one.
absl::Status AddPrefix(const GgufFile& file, bool adds_bos,
                       TokenizerFile& tokenizer) {
  ASSIGN_OR_RETURN(adds_bos,
                   FlagOr(file, "tokenizer.ggml.add_bos_token", adds_bos));
  ASSIGN_OR_RETURN(const bool adds_eos,
                   FlagOr(file, "tokenizer.ggml.add_eos_token", false));
  if (adds_eos) {
    return file.Error(absl::UnimplementedError(
        "tokenizer.ggml.add_eos_token true is not implemented"));
  }
  if (!adds_bos) return absl::OkStatus();
  const absl::StatusOr<int64_t> id = file.Get<int64_t>(kBosKey);
  if (absl::IsNotFound(id.status())) return absl::OkStatus();
  RETURN_IF_ERROR(id.status());
  if (*id < 0 || *id > kMaxTokenId) {
    return file.Error(absl::InvalidArgumentError(
        absl::StrCat(std::string(kBosKey), " is ", *id, ", not a token")));
  }
  tokenizer.prefix = {static_cast<TokenId>(*id)};
  return absl::OkStatus();
}

absl::StatusOr<TokenizerFile> ReadByteLevel(const GgufFile& file) {
  ASSIGN_OR_RETURN(const GgufTokenizerFamily family, ReadFamily(file));
  TokenizerFile tokenizer;
  for (std::string_view pattern : family.patterns) {
    tokenizer.pre_tokenizer.splits.push_back(KnownPattern(pattern));
  }
  tokenizer.pre_tokenizer.split_digits = family.split_digits;
  if (family.normalize_to_nfc) {
    tokenizer.normalizer.Add({.form = NormalForm::kNfc});
  }
  tokenizer.ignore_merges = family.ignore_merges;
  RETURN_IF_ERROR(AddVocabulary(file, tokenizer));
  RETURN_IF_ERROR(AddMerges(file, tokenizer));
  RETURN_IF_ERROR(AddPrefix(file, family.adds_bos, tokenizer));
  return tokenizer;
}

// SentencePiece's BPE has no merges: of all pairs that make a token, the one
// whose token has the highest score comes first, the leftmost of equal ones.
absl::Status AddScoredMerges(const GgufFile& file, TokenizerFile& tokenizer) {
  ASSIGN_OR_RETURN(const auto tokens,
                   file.Get<std::vector<std::string_view>>(kTokens));
  ASSIGN_OR_RETURN(const auto types, file.Get<GgufNumbers<int32_t>>(kTypes));
  ASSIGN_OR_RETURN(const auto scores, file.Get<GgufNumbers<float>>(kScores));
  if (scores.size() != tokens.size()) {
    return file.Error(absl::InvalidArgumentError(
        absl::StrCat(std::string(kScores), " has ", scores.size(), " entries, ",
                     std::string(kTokens), " ", tokens.size())));
  }
  std::vector<std::pair<float, size_t>> order;  // best first
  absl::flat_hash_set<std::string_view> normal;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (static_cast<TokenType>(types[i]) != TokenType::kNormal) continue;
    if (std::isnan(scores[i])) {
      return file.Error(absl::InvalidArgumentError(
          absl::StrCat(std::string(kScores), "[", i, "] is not a number")));
    }
    order.emplace_back(-scores[i], i);
    normal.insert(tokens[i]);
  }
  std::sort(order.begin(), order.end());
  int32_t rank = -1;
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || order[k].first != order[k - 1].first) ++rank;
    const std::string_view token = tokens[order[k].second];
    for (size_t at = 0; at < token.size();) {
      at += CharacterSize(token, at);
      const std::string_view left = token.substr(0, at);
      const std::string_view right = token.substr(at);
      if (!normal.contains(left) || !normal.contains(right)) continue;
      tokenizer.merges.emplace_back(left, right);
      tokenizer.merge_ranks.push_back(rank);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerFile> ReadSentencePiece(const GgufFile& file) {
  constexpr const char* kMark = "▁";
  TokenizerFile tokenizer;
  tokenizer.alphabet = Alphabet::kCharacters;
  tokenizer.byte_fallback = true;
  tokenizer.fuse_unknown = true;
  ASSIGN_OR_RETURN(
      const bool space_prefix,
      FlagOr(file, "tokenizer.ggml.add_space_prefix", /*fallback=*/true));
  if (space_prefix) {
    tokenizer.normalizer.Add({.kind = Normalizer::Kind::kPrepend, .to = kMark});
    tokenizer.decoder_strip = 1;
  }
  tokenizer.normalizer.Add(
      {.kind = Normalizer::Kind::kReplace, .from = " ", .to = kMark});
  tokenizer.decoder.Add(
      {.kind = Normalizer::Kind::kReplace, .from = kMark, .to = " "});
  RETURN_IF_ERROR(AddVocabulary(file, tokenizer));
  for (const AddedToken& added : tokenizer.added_tokens) {
    if (added.special && added.content == "<unk>") {
      tokenizer.unknown_token = added.content;
    }
  }
  RETURN_IF_ERROR(AddScoredMerges(file, tokenizer));
  RETURN_IF_ERROR(AddPrefix(file, /*adds_bos=*/true, tokenizer));
  return tokenizer;
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadGgufTokenizerFile(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model,
                   file.Get<std::string_view>("tokenizer.ggml.model"));
  if (model == "gpt2") return ReadByteLevel(file);
  if (model == "llama") return ReadSentencePiece(file);
  return file.Error(UnknownName("tokenizer.ggml.model", model, "gpt2, llama"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadGgufTokenizer(
    const GgufFile& file) {
  ASSIGN_OR_RETURN(const TokenizerFile tokenizer, ReadGgufTokenizerFile(file));
  ASSIGN_OR_RETURN(TokenizerSettings settings, ReadSettings(file));
  auto created = Tokenizer::Create(tokenizer, std::move(settings));
  if (!created.ok()) return file.Error(created.status());
  return created;
}

}  // namespace espalier
