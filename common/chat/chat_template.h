#ifndef ESPALIER_COMMON_CHAT_CHAT_TEMPLATE_H_
#define ESPALIER_COMMON_CHAT_CHAT_TEMPLATE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/conversation.h"
#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Renders a conversation as the prompt for the assistant's next message. What a
// conversation says never becomes a special token, so that no user can end a
// turn early and speak in another role. Immutable; borrows the tokenizer.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // FieldErrors (request_errors.h) name the field of v1.Chat: no messages, a
  // role that is not one, malformed JSON, something that the template does not
  // read, or that it refuses, in its own words.
  virtual absl::StatusOr<std::vector<TokenId>> Render(
      const Conversation& conversation) const = 0;
};

// Returns the model's template, in Jinja2; ChatML for models without one.
// FAILED_PRECONDITION: the model has no template that can be rendered; says
// why.
absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatTemplate(
    const Tokenizer* tokenizer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_CHAT_TEMPLATE_H_
