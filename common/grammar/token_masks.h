#ifndef ESPALIER_COMMON_GRAMMAR_TOKEN_MASKS_H_
#define ESPALIER_COMMON_GRAMMAR_TOKEN_MASKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier::grammar {

// Rows of one bit for each token of a vocabulary: whether it is allowed.
class TokenMasks {
 public:
  TokenMasks() = default;
  // No token is allowed.
  TokenMasks(int64_t rows, int64_t vocab_size);

  int64_t num_rows() const { return num_rows_; }
  int64_t vocab_size() const { return vocab_size_; }

  bool Allows(int64_t row, TokenId token) const;
  void Allow(int64_t row, TokenId token);
  int64_t CountAllowed(int64_t row) const;
  std::vector<TokenId> Allowed(int64_t row) const;  // ascending

  // [words] of 32 tokens each, the lowest bit first. Bits after the vocabulary
  // count as set or not: they are not read.
  absl::Span<const uint32_t> Row(int64_t row) const;
  absl::Span<uint32_t> MutableRow(int64_t row);
  static int64_t WordsOf(int64_t vocab_size) { return (vocab_size + 31) / 32; }

 private:
  int64_t num_rows_ = 0;
  int64_t vocab_size_ = 0;
  std::vector<uint32_t> words_;  // [rows, words]
};

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_TOKEN_MASKS_H_
