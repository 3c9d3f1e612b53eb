#include "coordinator/http/generic_tools.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/json_read.h"

namespace espalier::coordinator {
namespace {

std::string Instructions(const Json& tools) {
  std::string text =
      "You may call functions to help the user. The functions, one a line, "
      "as JSON:\n<tools>\n";
  for (const Json& tool : tools) absl::StrAppend(&text, ToText(tool), "\n");
  return absl::StrCat(
      text,
      "</tools>\nTo call a function, answer with its name and arguments as "
      "JSON between tags:\n<tool_call>\n{\"name\": NAME, \"arguments\": "
      "OBJECT}\n</tool_call>");
}

void AddToSystem(const std::string& text, v1::Chat& chat) {
  const bool has_system =
      chat.messages_size() > 0 && chat.messages(0).role() == "system";
  if (has_system) {
    std::string& content = *chat.mutable_messages(0)->mutable_content();
    content = absl::StrCat(content, "\n\n", text);
    return;
  }
  v1::ChatMessage& system = *chat.add_messages();
  system.set_role("system");
  system.set_content(text);
  for (int i = chat.messages_size() - 1; i > 0; --i) {
    chat.mutable_messages()->SwapElements(i, i - 1);
  }
}

// The calls of an assistant's message, as text.
absl::StatusOr<std::string> CallsAsText(const std::string& field,
                                        const std::string& tool_calls) {
  const absl::StatusOr<Json> calls = ParseOrderedJson(tool_calls);
  if (!calls.ok()) return FieldError(field, calls.status().message());
  std::string text;
  for (size_t i = 0; i < calls->size(); ++i) {
    const Json* function = Find((*calls)[i], "function");
    const Json* name = function == nullptr ? nullptr : Find(*function, "name");
    if (name == nullptr) {
      return FieldError(Item(field, i), "must have a function with a name");
    }
    const Json* arguments = Find(*function, "arguments");
    const std::string written = arguments == nullptr ? "{}"
                                : arguments->is_string()
                                    ? arguments->get<std::string>()
                                    : ToText(*arguments);
    absl::StrAppend(&text, text.empty() ? "" : "\n",
                    "<tool_call>\n{\"name\": ", ToText(*name),
                    ", \"arguments\": ", written, "}\n</tool_call>");
  }
  return text;
}

}  // namespace

absl::Status DescribeTools(v1::Chat& chat) {
  for (int i = 0; i < chat.messages_size(); ++i) {
    v1::ChatMessage& message = *chat.mutable_messages(i);
    if (!message.tool_calls().empty()) {
      ASSIGN_OR_RETURN(
          const std::string calls,
          CallsAsText(absl::StrCat("chat.messages[", i, "].tool_calls"),
                      message.tool_calls()));
      const std::string separator = message.content().empty() ? "" : "\n";
      message.set_content(absl::StrCat(message.content(), separator, calls));
      message.clear_tool_calls();
    }
    if (message.role() != "tool") continue;
    message.set_role("user");
    message.set_content(absl::StrCat("<tool_response>\n", message.content(),
                                     "\n</tool_response>"));
    message.clear_tool_call_id();
    message.clear_name();
  }
  if (chat.tools().empty()) return absl::OkStatus();
  const absl::StatusOr<Json> tools = ParseOrderedJson(chat.tools());
  if (!tools.ok()) return FieldError("tools", tools.status().message());
  AddToSystem(Instructions(*tools), chat);
  chat.clear_tools();
  return absl::OkStatus();
}

}  // namespace espalier::coordinator
