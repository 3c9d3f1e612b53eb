#include "common/chat/chatml.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat/messages.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kAssistant = "assistant";

// Returns the id of a control token, which no text becomes under
// SpecialText::kPlain.
absl::StatusOr<TokenId> ControlToken(const Tokenizer& tokenizer,
                                     std::string_view token) {
  const std::optional<TokenId> id = tokenizer.TokenToId(token);
  if (id.has_value() && tokenizer.IsSpecial(*id)) return *id;
  return absl::FailedPreconditionError(
      absl::StrCat("the model's tokenizer has no special token ",
                   std::string(token), ", so it has no ChatML"));
}

// Roles and contents are all that ChatML has.
absl::Status CheckPlain(const Conversation& conversation) {
  constexpr const char* kProblem = "ChatML has no place for it";
  if (!conversation.tools.empty()) return FieldError("chat.tools", kProblem);
  if (!conversation.template_args.empty()) {
    return FieldError("chat.template_args", kProblem);
  }
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const ChatMessage& message = conversation.messages[i];
    const bool calls = !message.tool_calls.empty();
    if (!calls && message.reasoning_content.empty()) continue;
    return FieldError(absl::StrCat("chat.messages[", i, "].",
                                   calls ? "tool_calls" : "reasoning_content"),
                      kProblem);
  }
  return absl::OkStatus();
}

class ChatMl : public ChatTemplate {
 public:
  ChatMl(const Tokenizer* tokenizer, TokenId start, TokenId end)
      : tokenizer_(tokenizer), start_(start), end_(end) {}

  absl::StatusOr<std::vector<TokenId>> Render(
      const Conversation& conversation) const override {
    RETURN_IF_ERROR(CheckMessages(conversation));
    RETURN_IF_ERROR(CheckPlain(conversation));
    std::vector<TokenId> ids;
    for (const ChatMessage& message : conversation.messages) {
      AppendMessage(message.role, message.content, ids);
      const bool is_last = &message == &conversation.messages.back();
      if (is_last && conversation.end == ChatEnd::kContinue) return ids;
      ids.push_back(end_);
      Append("\n", ids);
    }
    if (conversation.end == ChatEnd::kNothing) return ids;
    ids.push_back(start_);
    Append(absl::StrCat(std::string(kAssistant), "\n"), ids);
    return ids;
  }

 private:
  void Append(std::string_view text, std::vector<TokenId>& ids) const {
    const std::vector<TokenId> more =
        tokenizer_->Encode(text, SpecialText::kPlain);
    ids.insert(ids.end(), more.begin(), more.end());
  }

  // Role and content are encoded together: a word may begin in the line break
  // and end in the content.
  void AppendMessage(std::string_view role, std::string_view content,
                     std::vector<TokenId>& ids) const {
    ids.push_back(start_);
    Append(absl::StrCat(std::string(role), "\n", std::string(content)), ids);
  }

  const Tokenizer* tokenizer_;
  TokenId start_;
  TokenId end_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatMl(
    const Tokenizer* tokenizer) {
  ASSIGN_OR_RETURN(const TokenId start, ControlToken(*tokenizer, kStart));
  ASSIGN_OR_RETURN(const TokenId end, ControlToken(*tokenizer, kEnd));
  return std::make_unique<ChatMl>(tokenizer, start, end);
}

}  // namespace espalier
