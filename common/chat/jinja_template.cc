#include "common/chat/jinja_template.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/chat/jinja_program.h"
#include "common/chat/messages.h"
#include "common/spec/request_errors.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(const Tokenizer* tokenizer,
                std::unique_ptr<JinjaProgram> program)
      : tokenizer_(tokenizer), program_(std::move(program)) {
    trusted_["add_generation_prompt"] = true;
    for (const auto& [name, token] : tokenizer->named_tokens()) {
      trusted_[name] = token;
    }
  }

  absl::StatusOr<std::vector<TokenId>> Render(
      const Conversation& conversation) const override {
    ASSIGN_OR_RETURN(const Json input, ToTemplateInput(conversation));
    RETURN_IF_ERROR(CheckUsed(conversation, input));
    const auto rendered = program_->Render(trusted_, input, absl::Now());
    if (!rendered.ok()) return Refusal(conversation, rendered.status());
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
    if (!program_->Render(trusted_, input, absl::Now()).ok()) {
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
