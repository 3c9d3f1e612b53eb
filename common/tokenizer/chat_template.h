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

// A conversation as the model was trained to read it, in ChatML:
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n ... <|im_start|>assistant\n
// What a message says is never read as a special token, so no user can end his
// turn early and speak as another. Immutable; borrows the tokenizer.
class ChatTemplate {
 public:
  // FAILED_PRECONDITION: the model does not speak ChatML; names what it lacks.
  static absl::StatusOr<ChatTemplate> Create(const Tokenizer* tokenizer);

  // The prompt that asks for the assistant's next message.
  // INVALID_ARGUMENT: no messages; a role that is empty or has a line break.
  absl::StatusOr<std::vector<TokenId>> Render(
      absl::Span<const ChatMessage> messages) const;

  // What is said first when no message of role "system" comes first.
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
