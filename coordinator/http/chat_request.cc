#include "coordinator/http/chat_request.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/generation_fields.h"

namespace espalier::coordinator {
namespace {

std::string In(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", Printable(name, /*max_bytes=*/64));
}

// The text of a content part. Media are refused by name.
absl::StatusOr<std::string> PartText(const std::string& path,
                                     const Json& part) {
  if (part.is_string()) return part.get<std::string>();
  const Json* type = Find(part, "type");
  if (type == nullptr) return FieldError(path, "must have a type");
  ASSIGN_OR_RETURN(const std::string name, ReadText(In(path, "type"), *type));
  const char* member = name == "refusal" ? "refusal" : "text";
  const bool is_text = name == "text" || name == "refusal" ||
                       name == "input_text" || name == "output_text";
  if (!is_text) {
    return FieldError(In(path, "type"),
                      absl::StrCat("\"", Printable(name, 64),
                                   "\" is not supported; text is"));
  }
  const Json* text = Find(part, member);
  if (text == nullptr) return FieldError(In(path, member), "is missing");
  return ReadText(In(path, member), *text);
}

absl::StatusOr<std::string> ContentText(const std::string& path,
                                        const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return FieldError(path, "must be a text or a list of parts");
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < content.size(); ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(), PartText(Item(path, i), content[i]));
  }
  return absl::StrJoin(parts, "\n");
}

absl::Status SetText(const std::string& path, const Json& value,
                     std::string& out) {
  ASSIGN_OR_RETURN(out, ReadText(path, value));
  return absl::OkStatus();
}

// Members of a message that are empty in what servers send, and sent back.
bool IsEmptyEcho(const std::string& name, const Json& value) {
  static constexpr std::array kEchoed = {"audio", "annotations", "refusal",
                                         "function_call", "token_ids"};
  for (const char* echoed : kEchoed) {
    if (name == echoed) return value.empty();
  }
  return false;
}

absl::Status ReadMember(const std::string& path, const std::string& name,
                        const Json& value, v1::ChatMessage& out) {
  const std::string field = In(path, name);
  if (name == "role") return SetText(field, value, *out.mutable_role());
  if (name == "content") {
    ASSIGN_OR_RETURN(*out.mutable_content(), ContentText(field, value));
    return absl::OkStatus();
  }
  if (name == "name") return SetText(field, value, *out.mutable_name());
  if (name == "tool_call_id") {
    return SetText(field, value, *out.mutable_tool_call_id());
  }
  if (name == "reasoning_content" || name == "reasoning") {
    return SetText(field, value, *out.mutable_reasoning_content());
  }
  if (name == "tool_calls") {
    if (!value.is_array()) return FieldError(field, "must be a list of calls");
    if (!value.empty()) out.set_tool_calls(ToText(value));
    return absl::OkStatus();
  }
  if (IsEmptyEcho(name, value)) return absl::OkStatus();
  return FieldError(field, "this server does not know the field");
}

absl::Status Messages(absl::string_view name, const Json& value,
                      ApiRequest& out) {
  return ReadMessages(name, value, *out.generate.mutable_chat());
}

absl::Status TemplateArguments(absl::string_view name, const Json& value,
                               ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  if (!value.empty()) {
    out.generate.mutable_chat()->set_template_args(ToText(value));
  }
  return absl::OkStatus();
}

absl::Status Tools(absl::string_view name, const Json& value, ApiRequest& out) {
  ASSIGN_OR_RETURN(out.tools.tools, ReadTools(name, value));
  if (!value.empty()) out.generate.mutable_chat()->set_tools(ToText(value));
  return absl::OkStatus();
}

absl::Status ParallelCalls(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  ASSIGN_OR_RETURN(out.tools.parallel, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status GenerationPrompt(absl::string_view name, const Json& value,
                              ApiRequest& out) {
  ASSIGN_OR_RETURN(const bool wanted, ReadBool(name, value));
  if (!wanted && out.generate.chat().end() == v1::CHAT_END_NEW_MESSAGE) {
    out.generate.mutable_chat()->set_end(v1::CHAT_END_NOTHING);
  }
  return absl::OkStatus();
}

absl::Status ContinueFinalMessage(absl::string_view name, const Json& value,
                                  ApiRequest& out) {
  ASSIGN_OR_RETURN(const bool wanted, ReadBool(name, value));
  if (wanted) out.generate.mutable_chat()->set_end(v1::CHAT_END_CONTINUE);
  return absl::OkStatus();
}

absl::Status WantsLogprobs(absl::string_view name, const Json& value,
                           ApiRequest& out) {
  ASSIGN_OR_RETURN(out.logprobs, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status TopLogprobs(absl::string_view name, const Json& value,
                         ApiRequest& out) {
  ASSIGN_OR_RETURN(const int64_t count,
                   ReadInteger(name, value, 0, kAllThatFit));
  out.generate.set_logprobs(static_cast<uint32_t>(count));
  out.names.emplace_back("logprobs", name);
  return absl::OkStatus();
}

absl::Status Modalities(absl::string_view name, const Json& value,
                        ApiRequest&) {
  ASSIGN_OR_RETURN(const std::vector<std::string> kinds,
                   ReadTexts(name, value));
  if (kinds == std::vector<std::string>{"text"}) return absl::OkStatus();
  return FieldError(name, "only [\"text\"] is supported");
}

constexpr Field kPromptFields[] = {
    {"messages", Messages,
     "roles system, developer, user, assistant, tool; content is a text or "
     "parts of text"},
    {"chat_template_kwargs", TemplateArguments,
     "arguments of the model's template"},
    {"add_generation_prompt", GenerationPrompt,
     "default true; false: the prompt does not begin the answer's message"},
    {"continue_final_message", ContinueFinalMessage,
     "true: the answer goes on with the last message, the assistant's"},
    {"tools", Tools, "functions; at most 128"},
    {"chat_template", nullptr, "the model's own template is used"},
};

constexpr Field kChatFields[] = {
    {"max_completion_tokens", ReadMaxTokens, "as max_tokens"},
    {"logprobs", WantsLogprobs, "true: of each token"},
    {"top_logprobs", TopLogprobs, "0 .. 20; needs logprobs"},
    // Read when the tools are known.
    {"tool_choice", Accept, "none, auto, required, a function, allowed_tools"},
    {"parallel_tool_calls", ParallelCalls, "false: at most one call"},
    {"modalities", Modalities, "[\"text\"]"},
    {"reasoning_effort", nullptr,
     "is not supported; chat_template_kwargs has the arguments of the model's "
     "template"},
    {"audio", nullptr, "is not supported"},
    {"functions", nullptr, "is not supported; see tools"},
    {"function_call", nullptr, "is not supported; see tool_choice"},
    {"prediction", nullptr, "is not supported; drafters need no prediction"},
    {"web_search_options", nullptr, "is not supported"},
    {"moderation", nullptr, "is not supported"},
    {"verbosity", nullptr, "is not supported"},
};

}  // namespace

FieldTable ChatPromptFields() { return kPromptFields; }
FieldTable ChatFields() { return kChatFields; }

absl::Status ReadChatMessage(const std::string& path, const Json& message,
                             v1::ChatMessage& out) {
  if (!message.is_object()) return FieldError(path, "must be an object");
  for (const auto& [name, value] : message.items()) {
    if (!value.is_null()) RETURN_IF_ERROR(ReadMember(path, name, value, out));
  }
  if (out.has_content() || !out.tool_calls().empty()) return absl::OkStatus();
  return FieldError(In(path, "content"), "is missing");
}

absl::Status ReadMessages(absl::string_view name, const Json& messages,
                          v1::Chat& out) {
  RETURN_IF_ERROR(CheckMessageList(name, messages));
  for (size_t i = 0; i < messages.size(); ++i) {
    RETURN_IF_ERROR(
        ReadChatMessage(Item(name, i), messages[i], *out.add_messages()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ApiRequest> ReadChatRequest(const Json& body) {
  ApiRequest out;
  RETURN_IF_ERROR(ReadFields(body,
                             {GenerationFields(), ConstraintFields(),
                              ChatPromptFields(), ChatFields()},
                             out));
  v1::GenerateRequest& generate = out.generate;
  if (generate.chat().messages().empty())
    return FieldError("messages", "is missing");
  if (out.logprobs && !generate.has_logprobs()) generate.set_logprobs(0);
  if (!out.logprobs && generate.has_logprobs()) {
    if (generate.logprobs() > 0) {
      return FieldError("top_logprobs", "needs \"logprobs\": true");
    }
    generate.clear_logprobs();
  }
  if (const Json* choice = Find(body, "tool_choice")) {
    RETURN_IF_ERROR(ReadToolChoice("tool_choice", *choice, out.tools));
  }
  if (out.tools.tools.empty() &&
      out.tools.choice == ToolUse::Choice::kRequired) {
    return FieldError("tool_choice", "there are no tools");
  }
  if (!generate.has_max_tokens()) generate.set_max_tokens(kAllThatFit);
  SetTemperature(out);
  return out;
}

}  // namespace espalier::coordinator
