#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_END_TOKENS_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_END_TOKENS_H_

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

// Returns whether a token of a GGUF file ends a text or a turn by its name,
// such as <|im_end|>. The metadata have room for three end tokens, models have
// more: llama.cpp goes by these names as well, whatever type the file says.
bool IsGgufEndToken(std::string_view token);

// Returns the ids of those tokens. <|end|> is none where it ends a part of a
// turn only: beside <|return|> and <|call|>, or <|flush|> and <|calls|>.
std::vector<TokenId> FindGgufEndTokens(
    absl::Span<const std::string_view> tokens);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_END_TOKENS_H_
