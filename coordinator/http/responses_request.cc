#include "coordinator/http/responses_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/generation_fields.h"

namespace espalier::coordinator {
namespace {

std::string MemberPath(const std::string& path, const char* name) {
  return absl::StrCat(path, ".", name);
}

absl::StatusOr<std::string> TextOf(const std::string& path, const Json& item,
                                   const char* name) {
  const Json* text = Find(item, name);
  if (text == nullptr) return FieldError(MemberPath(path, name), "is missing");
  return ReadText(MemberPath(path, name), *text);
}

// The assistant's message that a call belongs to: the last one, or a new one.
v1::ChatMessage& CallingMessage(v1::Chat& chat) {
  const int last = chat.messages_size() - 1;
  if (last >= 0 && chat.messages(last).role() == "assistant") {
    return *chat.mutable_messages(last);
  }
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("assistant");
  return message;
}

absl::Status AddFunctionCall(const std::string& path, const Json& item,
                             v1::Chat& chat) {
  ASSIGN_OR_RETURN(const std::string id, TextOf(path, item, "call_id"));
  ASSIGN_OR_RETURN(const std::string name, TextOf(path, item, "name"));
  ASSIGN_OR_RETURN(const std::string arguments,
                   TextOf(path, item, "arguments"));
  v1::ChatMessage& message = CallingMessage(chat);
  Json calls = Json::array();
  if (!message.tool_calls().empty())
    calls = ReadOrderedJson(message.tool_calls());
  calls.push_back({{"id", id},
                   {"type", "function"},
                   {"function", {{"name", name}, {"arguments", arguments}}}});
  message.set_tool_calls(ToText(calls));
  return absl::OkStatus();
}

// An item of the input as a message of chats.
absl::Status AddItem(const std::string& path, const Json& item,
                     v1::Chat& chat) {
  if (!item.is_object()) return FieldError(path, "must be an object");
  const Json* type = Find(item, "type");
  const std::string kind = type == nullptr     ? "message"
                           : type->is_string() ? type->get<std::string>()
                                               : "";
  // Thoughts of earlier turns are left out, as in OpenAI's API.
  if (kind == "reasoning") return absl::OkStatus();
  if (kind == "function_call") return AddFunctionCall(path, item, chat);
  Json message;
  if (kind == "message") {
    message = {{"role", item.value("role", Json())},
               {"content", item.value("content", Json())}};
  } else if (kind == "function_call_output") {
    message = {{"role", "tool"},
               {"tool_call_id", item.value("call_id", Json())},
               {"content", item.value("output", Json())}};
  } else {
    return FieldError(MemberPath(path, "type"),
                      absl::StrCat("\"", Printable(kind, /*max_bytes=*/64),
                                   "\" is not supported"));
  }
  return ReadChatMessage(path, message, *chat.add_messages());
}

absl::Status Input(absl::string_view name, const Json& value, ApiRequest& out) {
  v1::Chat& chat = *out.generate.mutable_chat();
  if (value.is_string()) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role("user");
    message.set_content(value.get<std::string>());
    NameLastMessage(name, out);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckMessageList(name, value));
  for (size_t i = 0; i < value.size(); ++i) {
    const int first = chat.messages_size();
    RETURN_IF_ERROR(AddItem(Item(name, i), value[i], chat));
    NameMessages(first, Item(name, i), out);
  }
  return absl::OkStatus();
}

absl::Status FunctionTools(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  if (!value.is_array()) return FieldError(name, "must be a list of tools");
  out.given_tools = value;
  Json functions = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    Json function = value[i];
    const Json* type = Find(function, "type");
    if (type == nullptr || *type != "function") {
      return FieldError(absl::StrCat(Item(name, i), ".type"),
                        "only \"function\" is supported");
    }
    function.erase("type");
    functions.push_back({{"type", "function"}, {"function", function}});
  }
  ASSIGN_OR_RETURN(out.tools.tools, ReadTools(name, functions));
  if (!functions.empty()) {
    out.generate.mutable_chat()->set_tools(ToText(functions));
  }
  return absl::OkStatus();
}

absl::Status ParallelToolCalls(absl::string_view name, const Json& value,
                               ApiRequest& out) {
  ASSIGN_OR_RETURN(out.tools.parallel, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status TextFormat(absl::string_view name, const Json& value,
                        ApiRequest& out) {
  const std::string path(name);
  RETURN_IF_ERROR(CheckMembers(path, value, {"format", "verbosity"}));
  if (Find(value, "verbosity") != nullptr) {
    return FieldError(absl::StrCat(path, ".verbosity"), "is not supported");
  }
  const Json* format = Find(value, "format");
  if (format == nullptr) return absl::OkStatus();
  const std::string field = absl::StrCat(path, ".format");
  const Json* type = Find(*format, "type");
  if (type == nullptr || *type != "json_schema") {
    return ReadResponseFormat(field, *format, out);
  }
  return ReadResponseFormat(
      field, {{"type", "json_schema"}, {"json_schema", *format}}, out);
}

absl::Status Background(absl::string_view name, const Json& value,
                        ApiRequest&) {
  ASSIGN_OR_RETURN(const bool background, ReadBool(name, value));
  if (!background) return absl::OkStatus();
  return FieldError(name, "true is not supported: nothing is stored");
}

absl::Status Include(absl::string_view name, const Json& value, ApiRequest&) {
  if (value.is_array() && value.empty()) return absl::OkStatus();
  return FieldError(name, "is not supported");
}

absl::Status Truncation(absl::string_view name, const Json& value,
                        ApiRequest&) {
  if (value == "disabled") return absl::OkStatus();
  return FieldError(name, "only \"disabled\" is supported");
}

absl::Status Reasoning(absl::string_view name, const Json& value,
                       ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  for (const auto& [key, part] : value.items()) {
    if (part.is_null()) continue;
    out.warnings.push_back(
        absl::StrCat("reasoning.", Printable(key, 64), ": is not followed"));
  }
  return absl::OkStatus();
}

constexpr char kNotThisApi[] = "is not a field of this API";
constexpr char kNothingStored[] = "is not supported: nothing is stored";
constexpr Field kResponsesFields[] = {
    {"input", Input,
     "a text, or messages, function_call, function_call_output; reasoning is "
     "left out"},
    {"instructions", Accept, "the system's message"},
    {"max_output_tokens", ReadMaxTokens, "at least 1; default: as many as fit"},
    {"text", TextFormat, "format: text, json_object, json_schema"},
    {"tools", FunctionTools, "functions"},
    {"tool_choice", Accept, "none, auto, required, a function, allowed_tools"},
    {"parallel_tool_calls", ParallelToolCalls, "false: at most one call"},
    {"reasoning", Reasoning, "accepted with a warning"},
    {"background", Background, "false"},
    {"include", Include, "an empty list"},
    {"truncation", Truncation, "disabled"},
    {"previous_response_id", nullptr, kNothingStored},
    {"conversation", nullptr, kNothingStored},
    {"prompt", nullptr, kNothingStored},
    {"access_programs", nullptr, "is not supported"},
    {"background_options", nullptr, kNothingStored},
    {"context_management", nullptr, "is not supported"},
    {"image", nullptr, "is not supported"},
    {"moderation", nullptr, "is not supported"},
    {"max_tool_calls", nullptr, "is not supported"},
    {"top_logprobs", nullptr, "is not supported"},
    {"n", nullptr, kNotThisApi},
    {"stop", nullptr, kNotThisApi},
    {"max_tokens", nullptr,
     "is not a field of this API; see max_output_tokens"},
    {"prompt_logprobs", nullptr, kNotThisApi},
    {"return_token_ids", nullptr, kNotThisApi},
};

absl::Status AddInstructions(const Json& body, ApiRequest& out) {
  const Json* instructions = Find(body, "instructions");
  if (instructions == nullptr) return absl::OkStatus();
  v1::ChatMessage& message = *out.generate.mutable_chat()->add_messages();
  message.set_role("system");
  ASSIGN_OR_RETURN(*message.mutable_content(),
                   ReadText("instructions", *instructions));
  NameLastMessage("instructions", out);
  return absl::OkStatus();
}

}  // namespace

FieldTable ResponsesFields() { return kResponsesFields; }

absl::StatusOr<ApiRequest> ReadResponsesRequest(const Json& body) {
  ApiRequest out;
  RETURN_IF_ERROR(AddInstructions(body, out));
  RETURN_IF_ERROR(
      ReadFields(body, {ResponsesFields(), GenerationFields()}, out));
  if (Find(body, "input") == nullptr) return FieldError("input", "is missing");
  if (const Json* choice = Find(body, "tool_choice")) {
    out.given_choice = *choice;
    RETURN_IF_ERROR(ReadToolChoice("tool_choice", *choice, out.tools));
  }
  if (out.tools.tools.empty() &&
      out.tools.choice == ToolUse::Choice::kRequired) {
    return FieldError("tool_choice", "there are no tools");
  }
  if (!out.generate.has_max_tokens()) out.generate.set_max_tokens(kAllThatFit);
  SetTemperature(out);
  return out;
}

}  // namespace espalier::coordinator
