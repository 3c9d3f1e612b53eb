#ifndef ESPALIER_COMMON_TOKENIZER_TOKENIZER_SETTINGS_H_
#define ESPALIER_COMMON_TOKENIZER_TOKENIZER_SETTINGS_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/speculation/types.h"

namespace espalier {

// Settings of the tokenizer from the other files of the folder.
struct TokenizerSettings {
  std::vector<TokenId> eos_ids = {};  // generation_config.json and config.json
  std::string eos_token = {};         // the tokenizer's; empty: none
  // Holds what a template calls "bos_token", "eos_token", ...
  // (special_tokens.h).
  std::map<std::string, std::string> named_tokens = {};
  // Jinja, of chat_template.jinja, or else of tokenizer_config.json (of
  // several, the one named "default"); or empty.
  std::string chat_template = {};
};

// Reads all settings but the tokens that special_tokens.h reads. Absent files
// are no error. INVALID_ARGUMENT: a malformed file; names the file and the
// field.
absl::StatusOr<TokenizerSettings> LoadTokenizerSettings(
    const std::filesystem::path& folder);

// NOT_FOUND; or INVALID_ARGUMENT: larger than any tokenizer file.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_TOKENIZER_SETTINGS_H_
