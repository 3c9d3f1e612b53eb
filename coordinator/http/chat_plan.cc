#include "coordinator/http/chat_plan.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/after_thoughts.h"
#include "coordinator/http/generic_tools.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/tool_format.h"

namespace espalier::coordinator {
namespace {

// Whether the output of a chat begins within the model's thoughts: the message
// that goes on has begun them, or the prompt ends with <think>.
bool OpensThoughts(const ServedModel& model, const v1::Chat& chat) {
  if (model.chat_template == nullptr) return false;
  if (chat.end() == v1::CHAT_END_NOTHING) return false;
  if (chat.end() == v1::CHAT_END_CONTINUE) {
    if (chat.messages().empty()) return false;
    const std::string& begun = chat.messages().rbegin()->content();
    const size_t open = begun.rfind("<think>");
    return open != begun.npos && begun.find("</think>", open) == begun.npos;
  }
  const auto prompt = model.chat_template->Render(
      {.messages = {{.role = "user", .content = "a"}},
       .template_args = chat.template_args()});
  if (!prompt.ok()) return false;
  const std::string text =
      model.tokenizer->Decode(*prompt, /*skip_special=*/false);
  return absl::EndsWith(absl::StripTrailingAsciiWhitespace(text), "<think>");
}

// The constraint that makes the output calls, or lets them be well-formed.
absl::Status HoldToTools(const ToolFormat& format, ApiRequest& request) {
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
  output.set_structural_tag(ToText(tag));
  request.names.emplace_back("structured_output.structural_tag", "tools");
  return absl::OkStatus();
}

// Calls that nobody has forced may begin anywhere, or not at all.
bool IsHeldFromItsBeginning(const ApiRequest& request) {
  const bool is_free = !request.tools.tools.empty() &&
                       request.tools.choice == ToolUse::Choice::kAuto;
  return !is_free && request.generate.has_structured_output() &&
         request.generate.structured_output().constraint_case() !=
             v1::StructuredOutput::CONSTRAINT_NOT_SET;
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
      chat.set_template_args(ToText({{"enable_thinking", *request.thinking}}));
    }
  }
  const bool may_think = absl::StrContains(jinja, "think>");
  const bool is_thinking = may_think && OpensThoughts(model, chat);
  const ToolFormat& format = FormatOf(jinja);
  if (!use.tools.empty()) {
    if (format.has_special_mark) request.generate.set_show_special_tokens(true);
    RETURN_IF_ERROR(HoldToTools(format, request));
  }
  if (is_thinking && IsHeldFromItsBeginning(request)) {
    RETURN_IF_ERROR(
        HoldAfterThoughts(*request.generate.mutable_structured_output()));
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
