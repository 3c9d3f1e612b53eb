#ifndef ESPALIER_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
#define ESPALIER_COMMON_TOKENIZER_SPECIAL_TOKENS_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tokenizer/added_token.h"

namespace espalier {

// Holds what the files beside tokenizer.json say of tokens.
struct SpecialTokens {
  // The tokens by the name that a chat template has for them, such as
  // "bos_token".
  std::map<std::string, std::string> named;
  // Tokens that AddTokens adds to those of tokenizer.json, in this order.
  std::vector<AddedToken> added;
};

// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json,
// as AutoTokenizer does it: added_tokens_decoder of tokenizer_config.json
// counts if it is there, and otherwise the two other files, whose names win
// over those of tokenizer_config.json. `own`: the added tokens of
// tokenizer.json. Absent files are no error. INVALID_ARGUMENT: a malformed
// file; names the file and the field.
absl::StatusOr<SpecialTokens> ReadSpecialTokens(
    const std::filesystem::path& folder, absl::Span<const AddedToken> own);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_SPECIAL_TOKENS_H_
