#include "common/chat/jinja_template.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/chat/jinja_program.h"
#include "common/chat/messages.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

// Cuts what was rendered after the last place where the input's own text has
// `content`. Templates may strip the content.
absl::Status CutAfter(absl::string_view content,
                      JinjaProgram::Rendered& rendered) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(content);
  const absl::string_view text = rendered.text;
  for (size_t i = rendered.from_input.size(); i-- > 0;) {
    ByteRange& range = rendered.from_input[i];
    const absl::string_view part =
        text.substr(range.begin, range.end - range.begin);
    const size_t at = stripped.empty() ? part.npos : part.rfind(stripped);
    if (at == part.npos) continue;
    range.end = range.begin + at + stripped.size();
    // White space at the end of the content goes on if the template left it.
    const absl::string_view rest = text.substr(range.end);
    const absl::string_view blanks =
        absl::ClippedSubstr(content, content.rfind(stripped) + stripped.size());
    if (absl::StartsWith(rest, blanks)) range.end += blanks.size();
    rendered.text.resize(range.end);
    rendered.from_input.resize(i + 1);
    return absl::OkStatus();
  }
  return FieldError("chat.end",
                    "the model's chat template does not show the last message "
                    "as it is, so it cannot be continued");
}

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(const Tokenizer* tokenizer,
                std::unique_ptr<JinjaProgram> program)
      : tokenizer_(tokenizer), program_(std::move(program)) {
    for (const auto& [name, token] : tokenizer->named_tokens()) {
      trusted_[name] = token;
    }
  }

  absl::StatusOr<std::vector<TokenId>> Render(
      const Conversation& conversation) const override {
    ASSIGN_OR_RETURN(const Json input, ToTemplateInput(conversation));
    RETURN_IF_ERROR(CheckUsed(conversation, input));
    Json trusted = trusted_;
    trusted["add_generation_prompt"] = conversation.end == ChatEnd::kNewMessage;
    auto rendered = program_->Render(trusted, input, absl::Now());
    if (!rendered.ok()) return Refusal(conversation, rendered.status());
    if (conversation.end == ChatEnd::kContinue) {
      RETURN_IF_ERROR(
          CutAfter(conversation.messages.back().content, *rendered));
    }
    return tokenizer_->EncodeMixed(rendered->text, rendered->from_input);
  }

 private:
  // Names the content of a message that has none if that is why the template
  // cannot render the conversation.
  absl::Status Refusal(Conversation conversation,
                       const absl::Status& refused) const {
    std::optional<size_t> first;
    for (size_t i = 0; i < conversation.messages.size(); ++i) {
      if (!conversation.messages[i].null_content) continue;
      if (!first.has_value()) first = i;
      conversation.messages[i].null_content = false;
    }
    if (!first.has_value()) return FieldError("chat", refused.message());
    ASSIGN_OR_RETURN(const Json input, ToTemplateInput(conversation));
    Json trusted = trusted_;
    trusted["add_generation_prompt"] = true;
    if (!program_->Render(trusted, input, absl::Now()).ok()) {
      return FieldError("chat", refused.message());
    }
    return FieldError(
        absl::StrCat("chat.messages[", *first, "].content"),
        absl::StrCat("the model's chat template cannot render a message "
                     "without content; send an empty text (",
                     std::string(refused.message()), ")"));
  }

  // Refuses fields of the conversation that the template would leave out
  // silently.
  absl::Status CheckUsed(const Conversation& conversation,
                         const Json& input) const {
    for (const auto& [name, value] : input.items()) {
      if (name == "messages" || program_->Mentions(name)) continue;
      return FieldError(
          name == "tools" ? "chat.tools" : "chat.template_args",
          absl::StrCat("the model's chat template has no \"", name, "\""));
    }
    for (size_t i = 0; i < conversation.messages.size(); ++i) {
      const ChatMessage& message = conversation.messages[i];
      if (!message.tool_calls.empty()) {
        RETURN_IF_ERROR(CheckUsedInMessage(i, "tool_calls"));
      }
      if (!message.reasoning_content.empty()) {
        RETURN_IF_ERROR(CheckUsedInMessage(i, "reasoning_content"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckUsedInMessage(size_t index, const char* name) const {
    if (program_->Mentions(name)) return absl::OkStatus();
    return FieldError(absl::StrCat("chat.messages[", index, "].", name),
                      "the model's chat template does not read it");
  }

  const Tokenizer* tokenizer_;
  std::unique_ptr<JinjaProgram> program_;
  Json trusted_ = Json::object();
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> NewJinjaTemplate(
    const Tokenizer* tokenizer) {
  auto program = JinjaProgram::Parse(std::string(tokenizer->chat_template()));
  if (!program.ok()) {
    return absl::FailedPreconditionError(program.status().message());
  }
  return std::make_unique<JinjaTemplate>(tokenizer, *std::move(program));
}

}  // namespace espalier
