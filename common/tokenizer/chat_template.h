#ifndef ESPALIER_COMMON_TOKENIZER_CHAT_TEMPLATE_H_
#define ESPALIER_COMMON_TOKENIZER_CHAT_TEMPLATE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/spec/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

// Renders a conversation as a prompt in ChatML:
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n ... <|im_start|>assistant\n
// Special tokens in a message are encoded as plain text, so that no user can
// end a turn early and speak in another role. Immutable; borrows the tokenizer.
class ChatTemplate {
 public:
  // FAILED_PRECONDITION: the model does not use ChatML; names what it lacks.
  static absl::StatusOr<ChatTemplate> Create(const Tokenizer* tokenizer);

  // The prompt for the assistant's next message.
  // INVALID_ARGUMENT: no messages; a role that is empty or has a line break.
  absl::StatusOr<std::vector<TokenId>> Render(
      absl::Span<const ChatMessage> messages) const;

  // The system message that is inserted if the first message has another role
  // than "system".
  const std::optional<std::string>& default_system_message() const {
    return default_system_message_;
  }

 private:
  ChatTemplate() = default;
  void Append(std::string_view text, std::vector<TokenId>& ids) const;
  void AppendMessage(std::string_view role, std::string_view content,
                     std::vector<TokenId>& ids) const;

  const Tokenizer* tokenizer_ = nullptr;
  TokenId start_ = 0;
  TokenId end_ = 0;
  std::optional<std::string> default_system_message_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_CHAT_TEMPLATE_H_
