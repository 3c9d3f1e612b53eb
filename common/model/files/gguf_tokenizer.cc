#include "common/model/files/gguf_tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/model/files/gguf_config.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"

namespace espalier {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// What tokenizer.ggml.pre says of how a text becomes words.
struct Family {
  std::string_view name;
  std::string_view pattern;
  bool split_digits = false;
  bool normalize_to_nfc = false;
  bool ignore_merges = false;
};
constexpr Family kFamilies[] = {
    {.name = "gpt-2", .pattern = kGpt2Pattern},
    {.name = "llama-bpe", .pattern = kLlama3Pattern, .ignore_merges = true},
    {.name = "qwen2", .pattern = kQwen2Pattern, .normalize_to_nfc = true},
    {.name = "smollm", .pattern = kGpt2Pattern, .split_digits = true},
};

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
                         const char* known) {
  return absl::UnimplementedError(absl::StrCat(
      key, " ", Quoted(name), " is not implemented; known: ", known));
}

absl::StatusOr<Family> ReadFamily(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model,
                   file.Get<std::string_view>("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return file.Error(UnknownName("tokenizer.ggml.model", model, "gpt2"));
  }
  ASSIGN_OR_RETURN(const std::string_view name,
                   file.Get<std::string_view>("tokenizer.ggml.pre"));
  for (const Family& family : kFamilies) {
    if (family.name == name) return family;
  }
  return file.Error(UnknownName("tokenizer.ggml.pre", name,
                                "gpt-2, llama-bpe, qwen2, smollm"));
}

absl::Status AddToken(std::string_view token, TokenType type,
                      TokenizerFile& tokenizer, TokenId id) {
  const std::string text(token);
  if (RepairUtf8(token) != text) {
    return absl::InvalidArgumentError("is not UTF-8");
  }
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

absl::StatusOr<TokenizerSettings> ReadSettings(const GgufFile& file) {
  TokenizerSettings settings;
  ASSIGN_OR_RETURN(settings.eos_ids, ReadGgufEosIds(file, kMaxTokenId + 1));
  const auto jinja = file.Get<std::string_view>("tokenizer.chat_template");
  if (jinja.ok()) {
    settings.chat_template = std::string(*jinja);
  } else if (!absl::IsNotFound(jinja.status())) {
    return jinja.status();
  }
  return settings;
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadGgufTokenizerFile(const GgufFile& file) {
  ASSIGN_OR_RETURN(const Family family, ReadFamily(file));
  TokenizerFile tokenizer;
  tokenizer.pre_tokenizer = SplitBy(family.pattern, family.split_digits);
  tokenizer.normalize_to_nfc = family.normalize_to_nfc;
  tokenizer.ignore_merges = family.ignore_merges;
  RETURN_IF_ERROR(AddVocabulary(file, tokenizer));
  RETURN_IF_ERROR(AddMerges(file, tokenizer));
  return tokenizer;
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
