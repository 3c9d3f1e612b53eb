#include "common/model/files/model_identity.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat/end_of_turn.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/gguf_path.h"
#include "common/model/files/gguf_tokenizer.h"
#include "common/model/files/model_config.h"

namespace espalier {

namespace {

// A folder may be written with a slash at its end.
std::string NameOf(const std::string& path) {
  const auto whole = std::filesystem::weakly_canonical(path);
  return (std::filesystem::is_directory(whole) ? whole.filename()
                                               : whole.stem())
      .string();
}

std::vector<TokenId> EndTokens(const ModelConfig& config,
                               const Tokenizer& tokenizer) {
  std::vector<TokenId> ids = config.eos_ids;
  ids.insert(ids.end(), tokenizer.eos_ids().begin(), tokenizer.eos_ids().end());
  if (const auto id = EndOfTurn(tokenizer)) ids.push_back(*id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// The largest token of a tokenizer is often one that a file has added.
absl::Status TooManyTokens(const std::string& path, const Tokenizer& tokenizer,
                           const ModelConfig& config) {
  const auto last = static_cast<TokenId>(tokenizer.vocab_size() - 1);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the tokenizer has ", tokenizer.vocab_size(),
      " tokens, the model a vocabulary of ", config.vocab_size, ": token ",
      last, ", ", std::string(tokenizer.BytesOf(last)),
      ", is none of the model's. Remove it from the tokenizer's files "
      "(added_tokens.json, tokenizer_config.json, special_tokens_map.json, "
      "tokenizer.json)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> gguf, GgufPathOf(path));
  if (!gguf.has_value()) return Tokenizer::Load(path);
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*gguf));
  return ReadGgufTokenizer(file);
}

absl::StatusOr<TargetIdentity> IdentifyTarget(const std::string& path,
                                              const std::string& name) {
  if (path.empty()) {
    return absl::InvalidArgumentError("model: no folder or file is given");
  }
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(path));
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(path));
  if (tokenizer->vocab_size() > config.vocab_size) {
    return TooManyTokens(path, *tokenizer, config);
  }
  const uint64_t fingerprint = tokenizer->fingerprint();
  std::vector<TokenId> end_tokens = EndTokens(config, *tokenizer);
  return TargetIdentity{.identity = {.name = name.empty() ? NameOf(path) : name,
                                     .vocab_size = config.vocab_size,
                                     .tokenizer_fingerprint = fingerprint},
                        .tokenizer = std::move(tokenizer),
                        .end_tokens = std::move(end_tokens)};
}

}  // namespace espalier
