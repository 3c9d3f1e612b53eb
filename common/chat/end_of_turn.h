#ifndef ESPALIER_COMMON_CHAT_END_OF_TURN_H_
#define ESPALIER_COMMON_CHAT_END_OF_TURN_H_

#include <optional>

#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Returns the token with which the chat template of the model, or the built-in
// ChatML, ends what an assistant says, such as <|im_end|>: the added token that
// follows the assistant's text in a rendered conversation, perhaps after white
// space. nullopt: there is no template, or none such token.
std::optional<TokenId> EndOfTurn(const Tokenizer& tokenizer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_END_OF_TURN_H_
