#include "common/chat/chat_template.h"

#include "common/chat/chatml.h"
#include "common/chat/jinja_template.h"

namespace espalier {

absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatTemplate(
    const Tokenizer* tokenizer) {
  if (tokenizer->chat_template().empty()) return NewChatMl(tokenizer);
  return NewJinjaTemplate(tokenizer);
}

}  // namespace espalier
