#include "common/grammar/token_masks.h"

#include <bit>

namespace espalier::grammar {

TokenMasks::TokenMasks(int64_t rows, int64_t vocab_size)
    : num_rows_(rows),
      vocab_size_(vocab_size),
      words_(rows * WordsOf(vocab_size)) {}

absl::Span<const uint32_t> TokenMasks::Row(int64_t row) const {
  const int64_t size = WordsOf(vocab_size_);
  return absl::MakeConstSpan(words_).subspan(row * size, size);
}

absl::Span<uint32_t> TokenMasks::MutableRow(int64_t row) {
  const int64_t size = WordsOf(vocab_size_);
  return absl::MakeSpan(words_).subspan(row * size, size);
}

bool TokenMasks::Allows(int64_t row, TokenId token) const {
  return token >= 0 && token < vocab_size_ &&
         (Row(row)[token / 32] >> (token % 32) & 1) != 0;
}

void TokenMasks::Allow(int64_t row, TokenId token) {
  MutableRow(row)[token / 32] |= uint32_t{1} << (token % 32);
}

std::vector<TokenId> TokenMasks::Allowed(int64_t row) const {
  std::vector<TokenId> tokens;
  const absl::Span<const uint32_t> words = Row(row);
  for (int64_t i = 0; i < std::ssize(words); ++i) {
    for (uint32_t left = words[i]; left != 0; left &= left - 1) {
      const auto token = static_cast<TokenId>(32 * i + std::countr_zero(left));
      if (token < vocab_size_) tokens.push_back(token);
    }
  }
  return tokens;
}

int64_t TokenMasks::CountAllowed(int64_t row) const {
  int64_t count = 0;
  for (uint32_t word : Row(row)) count += std::popcount(word);
  if (vocab_size_ % 32 == 0) return count;
  return count - std::popcount(Row(row).back() >> (vocab_size_ % 32));
}

}  // namespace espalier::grammar
