#ifndef ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_
#define ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/speculation/types.h"
#include "common/tokenizer/added_token.h"
#include "common/tokenizer/normalizer.h"
#include "common/tokenizer/pre_tokenizer.h"

namespace espalier {

using Vocabulary = absl::flat_hash_map<std::string, TokenId>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// How a vocabulary writes tokens, and what merges begin with.
enum class Alphabet {
  kByteLevel,   // GPT-2's characters for bytes (byte_level.h)
  kCharacters,  // as text (SentencePiece)
};

// The parts of a tokenizer.json that determine ids and text. Truncation and
// padding are left to the caller.
struct TokenizerFile {
  Alphabet alphabet = Alphabet::kByteLevel;
  Vocabulary vocabulary;
  Merges merges;  // in order of precedence if merge_ranks is empty
  // [merges] The rank of each merge, or empty. Of equal ranks, the leftmost
  // pair comes first.
  std::vector<int32_t> merge_ranks;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // A word that is a token of the vocabulary is that token, whatever merges
  // would make of it (Llama 3).
  bool ignore_merges = false;
  // Holds what the post-processor puts before a text: a BOS token, or nothing.
  std::vector<TokenId> prefix;
  // The token of bytes or characters that have none; empty: they are dropped.
  std::string unknown_token;
  bool fuse_unknown = false;  // one for several of them in a row

  // The fields of an alphabet of characters.
  bool byte_fallback = false;  // one without a token becomes "<0x..>" tokens
  Normalizer decoder;          // of each token: what its text is
  int32_t decoder_strip = 0;   // spaces that a whole text does not begin with
};

// Far above any vocabulary; bounds the memory that one id can claim.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 20) - 1;

// "a b". INVALID_ARGUMENT: not two tokens with one space.
absl::StatusOr<std::pair<std::string, std::string>> ParseMerge(
    std::string_view text);

// INVALID_ARGUMENT: not JSON, or a field of the wrong type; names the field.
// UNIMPLEMENTED: a kind of tokenizer for which ids would differ from those of
// `tokenizers`; names the field and its value.
absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view json);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_TOKENIZER_FILE_H_
