#ifndef ESPALIER_COMMON_CHAT_CHATML_H_
#define ESPALIER_COMMON_CHAT_CHATML_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// ChatML, for models without a template:
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n ... <|im_start|>assistant\n
// It takes roles and contents only.
// FAILED_PRECONDITION: the model does not use ChatML; names what it lacks.
absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatMl(
    const Tokenizer* tokenizer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_CHATML_H_
