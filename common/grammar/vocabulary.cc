#include "common/grammar/vocabulary.h"

#include <algorithm>

namespace espalier::grammar {

Vocabulary VocabularyOf(const Tokenizer& tokenizer, int64_t vocab_size,
                        absl::Span<const TokenId> end_tokens) {
  Vocabulary vocabulary = {
      .end_tokens = {end_tokens.begin(), end_tokens.end()}};
  vocabulary.tokens.resize(vocab_size);
  const int64_t known = std::min(vocab_size, tokenizer.vocab_size());
  for (TokenId id = 0; id < known; ++id) {
    if (!tokenizer.IsSpecial(id)) {
      vocabulary.tokens[id] = tokenizer.BytesOf(id);
    }
  }
  return vocabulary;
}

}  // namespace espalier::grammar
