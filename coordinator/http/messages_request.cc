#include "coordinator/http/messages_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/generation_fields.h"

namespace espalier::coordinator {
namespace {

std::string Below(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", name);
}

absl::StatusOr<std::string> TextMember(const std::string& path,
                                       const Json& block, const char* name) {
  const Json* text = Find(block, name);
  if (text == nullptr) return FieldError(Below(path, name), "is missing");
  return ReadText(Below(path, name), *text);
}

absl::Status NotSupported(const std::string& path, const std::string& type) {
  return FieldError(Below(path, "type"),
                    absl::StrCat("\"", Printable(type, /*max_bytes=*/64),
                                 "\" is not supported"));
}

// A text, or blocks of text.
absl::StatusOr<std::string> BlockText(const std::string& path,
                                      const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return FieldError(path, "must be a text or a list of blocks");
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string item = Item(path, i);
    ASSIGN_OR_RETURN(const std::string type,
                     TextMember(item, content[i], "type"));
    if (type != "text") return NotSupported(item, type);
    ASSIGN_OR_RETURN(texts.emplace_back(),
                     TextMember(item, content[i], "text"));
  }
  return absl::StrJoin(texts, "\n");
}

// The blocks of one message.
struct Blocks {
  std::vector<std::string> texts = {};
  Json calls = Json::array();                 // in OpenAI's form
  std::vector<v1::ChatMessage> results = {};  // of tools
};

absl::Status AddCall(const std::string& path, const Json& block, Blocks& out) {
  ASSIGN_OR_RETURN(const std::string id, TextMember(path, block, "id"));
  ASSIGN_OR_RETURN(const std::string name, TextMember(path, block, "name"));
  const Json* input = Find(block, "input");
  if (input == nullptr || !input->is_object()) {
    return FieldError(Below(path, "input"), "must be an object");
  }
  out.calls.push_back(
      {{"id", id},
       {"type", "function"},
       {"function", {{"name", name}, {"arguments", ToText(*input)}}}});
  return absl::OkStatus();
}

absl::Status AddResult(const std::string& path, const Json& block,
                       Blocks& out) {
  v1::ChatMessage& result = out.results.emplace_back();
  result.set_role("tool");
  ASSIGN_OR_RETURN(*result.mutable_tool_call_id(),
                   TextMember(path, block, "tool_use_id"));
  const Json* content = Find(block, "content");
  if (content == nullptr) {
    result.set_content("");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(*result.mutable_content(),
                   BlockText(Below(path, "content"), *content));
  const Json* is_error = Find(block, "is_error");
  if (is_error != nullptr && *is_error == true) {
    result.set_content(absl::StrCat("Error: ", result.content()));
  }
  return absl::OkStatus();
}

// Thoughts of earlier turns are left out, as in Anthropic's API.
absl::Status AddBlock(const std::string& path, const Json& block,
                      const std::string& role, Blocks& out) {
  ASSIGN_OR_RETURN(const std::string type, TextMember(path, block, "type"));
  const bool is_assistant = role == "assistant";
  if (type == "text") {
    ASSIGN_OR_RETURN(out.texts.emplace_back(), TextMember(path, block, "text"));
    return absl::OkStatus();
  }
  if (type == "tool_use" && is_assistant) return AddCall(path, block, out);
  if (type == "tool_result" && !is_assistant) {
    return AddResult(path, block, out);
  }
  const bool is_thought = type == "thinking" || type == "redacted_thinking";
  if (is_thought && is_assistant) return absl::OkStatus();
  return NotSupported(path, type);
}

absl::Status AddMessage(const std::string& path, const Json& message,
                        v1::Chat& chat) {
  ASSIGN_OR_RETURN(const std::string role, TextMember(path, message, "role"));
  if (role != "user" && role != "assistant") {
    return FieldError(Below(path, "role"), "must be user or assistant");
  }
  const Json* content = Find(message, "content");
  if (content == nullptr)
    return FieldError(Below(path, "content"), "is missing");
  Blocks blocks;
  if (content->is_string()) {
    blocks.texts.push_back(content->get<std::string>());
  } else {
    RETURN_IF_ERROR(CheckMessageList(Below(path, "content"), *content));
    for (size_t i = 0; i < content->size(); ++i) {
      RETURN_IF_ERROR(AddBlock(Item(Below(path, "content"), i), (*content)[i],
                               role, blocks));
    }
  }
  for (v1::ChatMessage& result : blocks.results) {
    *chat.add_messages() = std::move(result);
  }
  if (blocks.texts.empty() && blocks.calls.empty()) return absl::OkStatus();
  v1::ChatMessage& out = *chat.add_messages();
  out.set_role(role);
  if (!blocks.texts.empty()) {
    out.set_content(absl::StrJoin(blocks.texts, "\n"));
  }
  if (!blocks.calls.empty()) out.set_tool_calls(ToText(blocks.calls));
  return absl::OkStatus();
}

absl::Status MessageList(absl::string_view name, const Json& value,
                         ApiRequest& out) {
  RETURN_IF_ERROR(CheckMessageList(name, value));
  for (size_t i = 0; i < value.size(); ++i) {
    v1::Chat& chat = *out.generate.mutable_chat();
    const int first = chat.messages_size();
    RETURN_IF_ERROR(AddMessage(Item(name, i), value[i], chat));
    NameMessages(first, Item(name, i), out);
  }
  const Json* role = Find(value.back(), "role");
  if (role == nullptr || *role != "assistant") return absl::OkStatus();
  out.generate.mutable_chat()->set_end(v1::CHAT_END_CONTINUE);
  return absl::OkStatus();
}

absl::Status StopSequences(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   ReadTexts(name, value));
  out.generate.mutable_stop()->Assign(texts.begin(), texts.end());
  out.names.emplace_back("stop", name);
  return absl::OkStatus();
}

// A tool in OpenAI's form.
absl::StatusOr<Json> AsFunction(const std::string& path, const Json& tool) {
  const Json* type = Find(tool, "type");
  if (type != nullptr && *type != "custom") {
    return NotSupported(path,
                        type->is_string() ? type->get<std::string>() : "");
  }
  ASSIGN_OR_RETURN(const std::string name, TextMember(path, tool, "name"));
  const Json* schema = Find(tool, "input_schema");
  if (schema == nullptr) {
    return FieldError(Below(path, "input_schema"), "is missing");
  }
  Json function = {{"name", name}};
  if (const Json* about = Find(tool, "description")) {
    function["description"] = *about;
  }
  function["parameters"] = *schema;
  if (const Json* strict = Find(tool, "strict")) function["strict"] = *strict;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

absl::Status ToolList(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  if (!value.is_array()) return FieldError(name, "must be a list of tools");
  Json functions = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    ASSIGN_OR_RETURN(Json function, AsFunction(Item(name, i), value[i]));
    functions.push_back(std::move(function));
  }
  ASSIGN_OR_RETURN(out.tools.tools, ReadTools(name, functions));
  if (!functions.empty()) {
    out.generate.mutable_chat()->set_tools(ToText(functions));
  }
  return absl::OkStatus();
}

absl::Status Thinking(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string type,
                   TextMember(std::string(name), value, "type"));
  if (type == "adaptive") return absl::OkStatus();
  if (type != "enabled" && type != "disabled") {
    return NotSupported(std::string(name), type);
  }
  out.thinking = type == "enabled";
  if (Find(value, "budget_tokens") != nullptr) {
    out.warnings.push_back("thinking.budget_tokens: is not followed");
  }
  return absl::OkStatus();
}

absl::Status OutputConfig(absl::string_view name, const Json& value,
                          ApiRequest& out) {
  const std::string path(name);
  RETURN_IF_ERROR(CheckMembers(path, value, {"format", "effort"}));
  if (Find(value, "effort") != nullptr) {
    out.warnings.push_back("output_config.effort: is not followed");
  }
  const Json* format = Find(value, "format");
  if (format == nullptr) return absl::OkStatus();
  const Json* schema = Find(*format, "schema");
  if (schema == nullptr) {
    return FieldError(absl::StrCat(path, ".format.schema"), "is missing");
  }
  return ReadResponseFormat(
      absl::StrCat(path, ".format"),
      {{"type", "json_schema"}, {"json_schema", {{"schema", *schema}}}}, out);
}

absl::Status ReadChoice(const Json& choice, ApiRequest& out) {
  constexpr char kField[] = "tool_choice";
  ToolUse& use = out.tools;
  RETURN_IF_ERROR(CheckMembers(kField, choice,
                               {"type", "name", "disable_parallel_tool_use"}));
  ASSIGN_OR_RETURN(const std::string type, TextMember(kField, choice, "type"));
  if (type == "tool") {
    ASSIGN_OR_RETURN(const std::string name,
                     TextMember(kField, choice, "name"));
    use.choice = ToolUse::Choice::kRequired;
    use.parallel = false;
    return KeepTools("tool_choice.name", {name}, use);
  }
  if (const Json* single = Find(choice, "disable_parallel_tool_use")) {
    ASSIGN_OR_RETURN(
        const bool is_single,
        ReadBool("tool_choice.disable_parallel_tool_use", *single));
    use.parallel = !is_single;
  }
  if (type != "any" && type != "auto" && type != "none") {
    return NotSupported(kField, type);
  }
  use.choice = type == "any"    ? ToolUse::Choice::kRequired
               : type == "none" ? ToolUse::Choice::kNone
                                : ToolUse::Choice::kAuto;
  return absl::OkStatus();
}

constexpr char kAccepted[] = "accepted; changes nothing here";
constexpr Field kMessagesFields[] = {
    {"messages", MessageList,
     "text, tool_use, tool_result; thoughts of earlier turns are left out; a "
     "last message of the assistant is continued"},
    {"system", Accept, "a text or blocks of text"},
    {"stop_sequences", StopSequences, "at most 32"},
    {"tools", ToolList, "with an input_schema"},
    {"tool_choice", Accept, "auto, any, tool, none"},
    {"thinking", Thinking,
     "as far as the model's template has enable_thinking"},
    {"output_config", OutputConfig, "format"},
    {"cache_control", Accept, "accepted; prefixes are always cached"},
    {"inference_geo", Accept, kAccepted},
    {"n", nullptr, "is not a field of this API"},
    {"stream_options", nullptr, "is not a field of this API"},
    {"stop", nullptr, "is not a field of this API; see stop_sequences"},
    {"prompt_logprobs", nullptr, "is not a field of this API"},
    {"return_token_ids", nullptr, "is not a field of this API"},
    {"diagnostics", nullptr, "is not supported"},
    {"speed", nullptr, "is not supported"},
    {"user_profile_id", nullptr, "is not supported"},
    {"workspace_id", nullptr, "is not supported"},
    {"container", nullptr, "is not supported"},
    {"mcp_servers", nullptr, "is not supported"},
    {"context_management", nullptr, "is not supported"},
};

// The system's text is the first message, wherever the body has it.
absl::Status AddSystem(const Json& body, ApiRequest& out) {
  const Json* system = Find(body, "system");
  if (system == nullptr) return absl::OkStatus();
  v1::ChatMessage& message = *out.generate.mutable_chat()->add_messages();
  message.set_role("system");
  ASSIGN_OR_RETURN(*message.mutable_content(), BlockText("system", *system));
  NameLastMessage("system", out);
  return absl::OkStatus();
}

}  // namespace

FieldTable MessagesFields() { return kMessagesFields; }

absl::StatusOr<ApiRequest> ReadMessagesRequest(const Json& body,
                                               bool generates) {
  ApiRequest out;
  RETURN_IF_ERROR(AddSystem(body, out));
  RETURN_IF_ERROR(
      ReadFields(body, {MessagesFields(), GenerationFields()}, out));
  if (Find(body, "messages") == nullptr) {
    return FieldError("messages", "is missing");
  }
  if (generates && !out.generate.has_max_tokens()) {
    return FieldError("max_tokens", "is missing");
  }
  if (const Json* choice = Find(body, "tool_choice")) {
    RETURN_IF_ERROR(ReadChoice(*choice, out));
  }
  if (out.tools.tools.empty() &&
      out.tools.choice == ToolUse::Choice::kRequired) {
    return FieldError("tool_choice", "there are no tools");
  }
  SetTemperature(out);
  // For the count of its tokens, which comes before the answer.
  out.generate.set_echo(true);
  return out;
}

}  // namespace espalier::coordinator
