#ifndef ESPALIER_COMMON_TOKENIZER_ADDED_VOCABULARY_H_
#define ESPALIER_COMMON_TOKENIZER_ADDED_VOCABULARY_H_

#include "absl/types/span.h"
#include "common/tokenizer/added_token.h"
#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Adds `tokens` to `file` in this order, as the `tokenizers` package does it.
// A token that the file has keeps its id and takes the new properties; what was
// special stays special. Any other gets the next free id: the ids that `tokens`
// state are not read.
void AddTokens(absl::Span<const AddedToken> tokens, TokenizerFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_ADDED_VOCABULARY_H_
