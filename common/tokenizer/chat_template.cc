#include "common/tokenizer/chat_template.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"

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

// The default system message of a Jinja template, if it has one: the rest of
// the literal "<|im_start|>system\n...<|im_end|>".
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

absl::Status CheckRole(const ChatMessage& message, size_t index) {
  if (!message.role.empty() &&
      message.role.find_first_of("\r\n") == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "messages[", index, "].role: must not be empty nor have a line break"));
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Create(const Tokenizer* tokenizer) {
  ChatTemplate result;
  result.tokenizer_ = tokenizer;
  ASSIGN_OR_RETURN(result.start_, ControlToken(*tokenizer, kStart));
  ASSIGN_OR_RETURN(result.end_, ControlToken(*tokenizer, kEnd));
  const std::string_view jinja = tokenizer->chat_template();
  const std::string obstacle = jinja.empty() ? "" : ObstacleIn(jinja);
  if (!obstacle.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model's chat_template is not ChatML: ", obstacle));
  }
  result.default_system_message_ = DefaultSystemMessage(jinja);
  return result;
}

absl::StatusOr<std::vector<TokenId>> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages) const {
  if (messages.empty()) {
    return absl::InvalidArgumentError("messages: must not be empty");
  }
  std::vector<TokenId> ids;
  if (default_system_message_.has_value() && messages[0].role != kSystem) {
    AppendMessage(kSystem, *default_system_message_, ids);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    RETURN_IF_ERROR(CheckRole(messages[i], i));
    AppendMessage(messages[i].role, messages[i].content, ids);
  }
  ids.push_back(start_);
  Append(absl::StrCat(std::string(kAssistant), "\n"), ids);
  return ids;
}

void ChatTemplate::AppendMessage(std::string_view role,
                                 std::string_view content,
                                 std::vector<TokenId>& ids) const {
  ids.push_back(start_);
  // Encoded together: a word may begin in the line break and end in the
  // content.
  Append(absl::StrCat(std::string(role), "\n", std::string(content)), ids);
  ids.push_back(end_);
  Append("\n", ids);
}

void ChatTemplate::Append(std::string_view text,
                          std::vector<TokenId>& ids) const {
  const std::vector<TokenId> more =
      tokenizer_->Encode(text, SpecialText::kPlain);
  ids.insert(ids.end(), more.begin(), more.end());
}

}  // namespace espalier
