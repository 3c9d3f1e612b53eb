#include "common/chat/messages.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kRoles = {
    "system", "user", "assistant", "tool", "developer"};
// Variables that other fields of a request set, or the model.
constexpr std::array<std::string_view, 8> kReserved = {
    "messages",  "tools",     "add_generation_prompt", "bos_token", "eos_token",
    "pad_token", "unk_token", "chat_template"};

std::string FieldOfMessage(size_t index, const char* name) {
  return absl::StrCat("chat.messages[", index, "].", name);
}

absl::StatusOr<Json> ParseOrdered(const std::string& field,
                                  const std::string& text) {
  absl::StatusOr<Json> parsed = ParseOrderedJson(text);
  if (!parsed.ok()) return FieldError(field, parsed.status().message());
  return parsed;
}

// Turns the arguments into an object, which templates of transformers expect in
// place of a text with JSON.
absl::Status ParseArguments(const std::string& field, Json& call) {
  if (!call.is_object()) return FieldError(field, "must be an object");
  Json& function = call.contains("function") ? call["function"] : call;
  if (!function.is_object() || !function.contains("name") ||
      !function["name"].is_string()) {
    return FieldError(field, "must have a function with a name");
  }
  if (!function.contains("arguments")) return absl::OkStatus();
  Json& arguments = function["arguments"];
  if (arguments.is_string()) {
    ASSIGN_OR_RETURN(arguments, ParseOrdered(absl::StrCat(field, ".arguments"),
                                             arguments.get<std::string>()));
  }
  if (arguments.is_object()) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".arguments"), "must be an object");
}

absl::StatusOr<Json> ParseToolCalls(const std::string& field,
                                    const std::string& text) {
  ASSIGN_OR_RETURN(Json calls, ParseOrdered(field, text));
  if (!calls.is_array() || calls.empty()) {
    return FieldError(field, "must be a list of calls");
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    RETURN_IF_ERROR(ParseArguments(absl::StrCat(field, "[", i, "]"), calls[i]));
  }
  return calls;
}

absl::StatusOr<Json> ToJson(const ChatMessage& message, size_t index) {
  Json json = {{"role", message.role}, {"content", message.content}};
  if (message.null_content) json["content"] = nullptr;
  if (!message.reasoning_content.empty()) {
    json["reasoning_content"] = message.reasoning_content;
  }
  if (!message.name.empty()) json["name"] = message.name;
  if (!message.tool_call_id.empty()) {
    json["tool_call_id"] = message.tool_call_id;
  }
  if (!message.tool_calls.empty()) {
    ASSIGN_OR_RETURN(json["tool_calls"],
                     ParseToolCalls(FieldOfMessage(index, "tool_calls"),
                                    message.tool_calls));
  }
  return json;
}

absl::Status AddTools(const std::string& text, Json& input) {
  constexpr const char* kField = "chat.tools";
  ASSIGN_OR_RETURN(Json tools, ParseOrdered(kField, text));
  if (!tools.is_array() || tools.empty()) {
    return FieldError(kField, "must be a list of tools");
  }
  for (const Json& tool : tools) {
    if (!tool.is_object()) {
      return FieldError(kField, "each tool must be an object");
    }
  }
  input["tools"] = std::move(tools);
  return absl::OkStatus();
}

absl::Status AddArguments(const std::string& text, Json& input) {
  constexpr const char* kField = "chat.template_args";
  ASSIGN_OR_RETURN(const Json arguments, ParseOrdered(kField, text));
  if (!arguments.is_object()) return FieldError(kField, "must be an object");
  for (const auto& [name, value] : arguments.items()) {
    if (std::find(kReserved.begin(), kReserved.end(), name) !=
        kReserved.end()) {
      return FieldError(kField,
                        absl::StrCat("\"", name, "\" is not an argument"));
    }
    input[name] = value;
  }
  return absl::OkStatus();
}

}  // namespace

bool IsChatRole(std::string_view role) {
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

absl::Status CheckMessages(const Conversation& conversation) {
  if (conversation.messages.empty()) {
    return FieldError("chat.messages", "must not be empty");
  }
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const std::string& role = conversation.messages[i].role;
    if (IsChatRole(role)) continue;
    return FieldError(
        FieldOfMessage(i, "role"),
        absl::StrCat("\"", Printable(role, /*max_bytes=*/64),
                     "\" is not one of system, user, assistant, tool, "
                     "developer"));
  }
  if (conversation.end != ChatEnd::kContinue) return absl::OkStatus();
  const size_t last = conversation.messages.size() - 1;
  const ChatMessage& message = conversation.messages[last];
  if (message.role != "assistant") {
    return FieldError(FieldOfMessage(last, "role"),
                      "only a message of the assistant can be continued");
  }
  if (message.content.empty() || !message.tool_calls.empty()) {
    return FieldError(FieldOfMessage(last, "content"),
                      "a message that is continued has a text and no calls");
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ToTemplateInput(const Conversation& conversation) {
  RETURN_IF_ERROR(CheckMessages(conversation));
  Json input = Json::object();
  Json& messages = input["messages"] = Json::array();
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    ASSIGN_OR_RETURN(Json message, ToJson(conversation.messages[i], i));
    messages.push_back(std::move(message));
  }
  if (!conversation.tools.empty()) {
    RETURN_IF_ERROR(AddTools(conversation.tools, input));
  }
  if (!conversation.template_args.empty()) {
    RETURN_IF_ERROR(AddArguments(conversation.template_args, input));
  }
  return input;
}

}  // namespace espalier
