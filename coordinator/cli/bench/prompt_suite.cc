#include "coordinator/cli/bench/prompt_suite.h"

#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"

namespace espalier::cli {
namespace {

absl::StatusOr<std::string> TextField(const JsonValue& object,
                                      const char* name) {
  ASSIGN_OR_RETURN(const JsonValue field, object.Member(name));
  ASSIGN_OR_RETURN(std::string text, field.Text());
  if (text.empty()) return field.Error("must not be empty");
  return text;
}

absl::Status SetMessages(const JsonValue& object, v1::Chat& chat) {
  ASSIGN_OR_RETURN(const JsonValue list, object.Member("messages"));
  ASSIGN_OR_RETURN(const std::vector<JsonValue> messages, list.Items());
  if (messages.empty()) return list.Error("must not be empty");
  for (const JsonValue& entry : messages) {
    v1::ChatMessage& message = *chat.add_messages();
    ASSIGN_OR_RETURN(*message.mutable_role(), TextField(entry, "role"));
    ASSIGN_OR_RETURN(*message.mutable_content(), TextField(entry, "content"));
  }
  return absl::OkStatus();
}

absl::Status SetInput(const JsonValue& object, v1::GenerateRequest& request) {
  if (object.Has("chat") + object.Has("prompt") + object.Has("messages") != 1) {
    return absl::InvalidArgumentError(
        "needs exactly one of \"chat\", \"prompt\", \"messages\"");
  }
  if (object.Has("messages")) {
    return SetMessages(object, *request.mutable_chat());
  }
  if (object.Has("prompt")) {
    ASSIGN_OR_RETURN(*request.mutable_prompt(), TextField(object, "prompt"));
    return absl::OkStatus();
  }
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  ASSIGN_OR_RETURN(*message.mutable_content(), TextField(object, "chat"));
  return absl::OkStatus();
}

absl::StatusOr<SuitePrompt> ParsePrompt(absl::string_view line) {
  ASSIGN_OR_RETURN(const nlohmann::json json,
                   ParseJsonObject({line.data(), line.size()}, "the line"));
  const JsonValue object(json);
  SuitePrompt prompt;
  if (object.Has("id")) {
    ASSIGN_OR_RETURN(prompt.id, TextField(object, "id"));
  }
  RETURN_IF_ERROR(SetInput(object, prompt.request));
  if (object.Has("json_schema")) {
    v1::StructuredOutput& output = *prompt.request.mutable_structured_output();
    ASSIGN_OR_RETURN(*output.mutable_json_schema(),
                     TextField(object, "json_schema"));
  }
  return prompt;
}

}  // namespace

absl::StatusOr<PromptSuite> ParsePromptSuite(const std::string& name,
                                             const std::string& jsonl) {
  PromptSuite suite{.name = name};
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(jsonl, '\n')) {
    ++line_number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    auto prompt = ParsePrompt(line);
    if (!prompt.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ", line ", line_number, ": ", prompt.status().message()));
    }
    if (prompt->id.empty()) prompt->id = absl::StrCat(line_number);
    suite.prompts.push_back(*std::move(prompt));
  }
  if (suite.prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": no prompts"));
  }
  return suite;
}

absl::StatusOr<std::filesystem::path> FindSuiteDir(
    const std::filesystem::path& executable_dir) {
  const std::filesystem::path candidates[] = {
      executable_dir / "../share/espalier/suites",
      executable_dir / "../../../deploy/suites",  // build/PRESET/bin
  };
  std::error_code error;
  for (const auto& candidate : candidates) {
    if (std::filesystem::is_directory(candidate, error)) {
      return candidate.lexically_normal();
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no prompt suites in ", candidates[0].lexically_normal().string(), " or ",
      candidates[1].lexically_normal().string(), "; say where: --suite-dir"));
}

}  // namespace espalier::cli
