#ifndef ESPALIER_COMMON_CHAT_CHATML_H_
#define ESPALIER_COMMON_CHAT_CHATML_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// ChatML without an engine:
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n ... <|im_start|>assistant\n
// It takes roles and contents only.
// FAILED_PRECONDITION: the model does not use ChatML; names what it lacks.
absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatMl(
    const Tokenizer* tokenizer);

// The system message that a ChatML template inserts if the first message has
// another role than "system".
std::optional<std::string> DefaultSystemMessage(std::string_view jinja);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_CHATML_H_
