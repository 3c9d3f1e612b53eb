#ifndef ESPALIER_COMMON_GRAMMAR_VOCABULARY_H_
#define ESPALIER_COMMON_GRAMMAR_VOCABULARY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/grammar/grammar.h"
#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier::grammar {

// Returns the vocabulary of a model: its tokenizer's, filled up to
// `vocab_size`. Special tokens are no text.
Vocabulary VocabularyOf(const Tokenizer& tokenizer, int64_t vocab_size,
                        absl::Span<const TokenId> end_tokens);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_VOCABULARY_H_
