#ifndef ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_
#define ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/spec/types.h"
#include "common/tokenizer/added_token.h"
#include "common/tokenizer/pre_tokenizer.h"

namespace espalier {

using Vocabulary = absl::flat_hash_map<std::string, TokenId>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// What a tokenizer.json says, in so far as it bears on ids and text. Tokens
// are written in the byte-level alphabet. The post-processor, truncation and
// padding are left out: they are the caller's business.
struct TokenizerFile {
  Vocabulary vocabulary;
  Merges merges;  // most urgent first
  std::vector<AddedToken> added_tokens;
  bool normalize_to_nfc = false;  // text is put into form C (nfc.h) first
  PreTokenizer pre_tokenizer;
  // What encodes a byte that has no token; empty: such bytes are dropped.
  std::string unknown_token;
};

// INVALID_ARGUMENT: not JSON, or a field of the wrong type; names the field.
// UNIMPLEMENTED: a kind of tokenizer that we would not encode as
// `tokenizers` does; names the field and its value.
absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view json);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_
