#include "coordinator/http/chat_plan.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/status_macros.h"
#include "common/spec/request_errors.h"
#include "coordinator/http/generic_tools.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/tool_format.h"

namespace espalier::coordinator {
namespace {

// Whether the prompt of a chat with these arguments ends with <think>.
bool OpensThoughts(const ServedModel& model, const v1::Chat& chat) {
  if (model.chat_template == nullptr) return false;
  const auto prompt = model.chat_template->Render(
      {.messages = {{.role = "user", .content = "a"}},
       .template_args = chat.template_args()});
  if (!prompt.ok()) return false;
  const std::string text =
      model.tokenizer->Decode(*prompt, /*skip_special=*/false);
  return absl::EndsWith(absl::StripTrailingAsciiWhitespace(text), "<think>");
}

// The constraint that makes the output calls, or lets them be well-formed.
absl::Status HoldToTools(const ToolFormat& format, bool is_thinking,
                         ApiRequest& request) {
  const bool is_forced = request.tools.choice == ToolUse::Choice::kRequired;
  const Json tag = is_forced ? ForcedCalls(format, request.tools)
                             : FreeCalls(format, request.tools);
  if (tag.is_null()) return absl::OkStatus();
  v1::StructuredOutput& output = *request.generate.mutable_structured_output();
  if (output.constraint_case() != v1::StructuredOutput::CONSTRAINT_NOT_SET) {
    return FieldError("tools",
                      "an output that is held to another form has no calls: "
                      "set tool_choice to \"none\"");
  }
  if (is_forced && is_thinking) {
    return FieldError("tool_choice",
                      "a model that thinks first cannot be forced: turn its "
                      "thoughts off by chat_template_kwargs");
  }
  output.set_structural_tag(Dump(tag));
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanChat(const ServedModel& model, ApiRequest& request) {
  v1::Chat& chat = *request.generate.mutable_chat();
  const std::string jinja(model.tokenizer->chat_template());
  ToolUse& use = request.tools;
  if (use.tools.empty() || use.choice == ToolUse::Choice::kNone) {
    use.tools.clear();
    chat.clear_tools();
  }
  if (request.thinking) {
    if (!absl::StrContains(jinja, "enable_thinking")) {
      request.warnings.push_back(
          "thinking: the model's template has no choice");
    } else if (chat.template_args().empty()) {
      chat.set_template_args(Dump({{"enable_thinking", *request.thinking}}));
    }
  }
  const bool may_think = absl::StrContains(jinja, "think>");
  const bool is_thinking = may_think && OpensThoughts(model, chat);
  const ToolFormat& format = FormatOf(jinja);
  if (!use.tools.empty()) {
    RETURN_IF_ERROR(HoldToTools(format, is_thinking, request));
  }
  if (!absl::StrContains(jinja, "tools")) RETURN_IF_ERROR(DescribeTools(chat));
  request.new_parser = [may_think, is_thinking, &format, use] {
    const auto parser = use.choice == ToolUse::Choice::kRequired
                            ? format.forced_parser
                            : format.parser;
    std::unique_ptr<OutputParser> rest =
        use.tools.empty() ? NewPlainParser() : parser(use.Names());
    if (!may_think) return rest;
    return NewReasoningParser(is_thinking, std::move(rest));
  };
  return absl::OkStatus();
}

}  // namespace espalier::coordinator
