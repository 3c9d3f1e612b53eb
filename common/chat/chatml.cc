#include "common/chat/chatml.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/chat/messages.h"
#include "common/spec/request_errors.h"

namespace espalier {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kSystem = "system";
constexpr std::string_view kAssistant = "assistant";

// The id of a control token, which no text becomes under SpecialText::kPlain.
absl::StatusOr<TokenId> ControlToken(const Tokenizer& tokenizer,
                                     std::string_view token) {
  const std::optional<TokenId> id = tokenizer.TokenToId(token);
  if (id.has_value() && tokenizer.IsSpecial(*id)) return *id;
  return absl::FailedPreconditionError(
      absl::StrCat("the model's tokenizer has no special token ",
                   std::string(token), ", so it has no ChatML"));
}

// Why the template is not ChatML; empty: nothing says that. A template with a
// further marker, such as "<|im_sep|>", or with a token before the first
// message renders something else.
std::string ObstacleIn(std::string_view jinja) {
  if (jinja.find(kStart) == std::string_view::npos)
    return "it has no <|im_start|>";
  if (jinja.find("bos_token") != std::string_view::npos) {
    return "it uses bos_token";
  }
  for (size_t at = jinja.find("<|"); at != std::string_view::npos;
       at = jinja.find("<|", at + 1)) {
    const size_t end = jinja.find("|>", at + 2);
    constexpr size_t kLongest = 40;
    if (end == std::string_view::npos || end - at > kLongest) continue;
    const std::string_view marker = jinja.substr(at, end + 2 - at);
    if (marker != kStart && marker != kEnd) {
      return absl::StrCat("it has ", std::string(marker));
    }
  }
  return "";
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
      : tokenizer_(tokenizer),
        start_(start),
        end_(end),
        default_system_message_(
            DefaultSystemMessage(tokenizer->chat_template())) {}

  absl::StatusOr<std::vector<TokenId>> Render(
      const Conversation& conversation) const override {
    RETURN_IF_ERROR(CheckMessages(conversation));
    RETURN_IF_ERROR(CheckPlain(conversation));
    std::vector<TokenId> ids;
    if (default_system_message_.has_value() &&
        conversation.messages[0].role != kSystem) {
      AppendMessage(kSystem, *default_system_message_, ids);
    }
    for (const ChatMessage& message : conversation.messages) {
      AppendMessage(message.role, message.content, ids);
    }
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
    ids.push_back(end_);
    Append("\n", ids);
  }

  const Tokenizer* tokenizer_;
  TokenId start_;
  TokenId end_;
  std::optional<std::string> default_system_message_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> NewChatMl(
    const Tokenizer* tokenizer) {
  ASSIGN_OR_RETURN(const TokenId start, ControlToken(*tokenizer, kStart));
  ASSIGN_OR_RETURN(const TokenId end, ControlToken(*tokenizer, kEnd));
  const std::string_view jinja = tokenizer->chat_template();
  const std::string obstacle = jinja.empty() ? "" : ObstacleIn(jinja);
  if (!obstacle.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the model's chat_template is not ChatML: ", obstacle,
        "; this build has no Jinja engine (deploy/setup.sh fetches it)"));
  }
  return std::make_unique<ChatMl>(tokenizer, start, end);
}

std::optional<std::string> DefaultSystemMessage(std::string_view jinja) {
  const std::string opening = absl::StrCat(std::string(kStart), "system\n");
  // A line break may be a character or Jinja's escape for it.
  const std::string text = absl::StrReplaceAll(
      absl::string_view(jinja.data(), jinja.size()), {{"\\n", "\n"}});
  for (size_t at = text.find(opening); at != std::string::npos;
       at = text.find(opening, at + 1)) {
    const size_t begin = at + opening.size();
    const size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) return std::nullopt;
    const std::string message = text.substr(begin, end - begin);
    // A quote ends the literal: the message is then computed, not constant.
    if (message.find('\'') == std::string::npos &&
        message.find('"') == std::string::npos) {
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace espalier
