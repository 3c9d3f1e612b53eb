#include "coordinator/cli/prompt_suite.h"

#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

using SuiteJson = nlohmann::json;

absl::StatusOr<std::string> TextField(const SuiteJson& object,
                                      const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string() ||
      field->get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" must be a text that is not empty"));
  }
  return field->get<std::string>();
}

absl::Status SetMessages(const SuiteJson& messages, v1::Chat& chat) {
  if (!messages.is_array() || messages.empty()) {
    return absl::InvalidArgumentError(
        "\"messages\" must be a list that is not empty");
  }
  for (const SuiteJson& entry : messages) {
    if (!entry.is_object()) {
      return absl::InvalidArgumentError(
          "\"messages\" must hold objects with \"role\" and \"content\"");
    }
    v1::ChatMessage& message = *chat.add_messages();
    ASSIGN_OR_RETURN(*message.mutable_role(), TextField(entry, "role"));
    ASSIGN_OR_RETURN(*message.mutable_content(), TextField(entry, "content"));
  }
  return absl::OkStatus();
}

absl::Status SetInput(const SuiteJson& object, v1::GenerateRequest& request) {
  if (object.contains("chat") + object.contains("prompt") +
          object.contains("messages") !=
      1) {
    return absl::InvalidArgumentError(
        "needs exactly one of \"chat\", \"prompt\", \"messages\"");
  }
  if (object.contains("messages")) {
    return SetMessages(object["messages"], *request.mutable_chat());
  }
  if (object.contains("prompt")) {
    ASSIGN_OR_RETURN(*request.mutable_prompt(), TextField(object, "prompt"));
    return absl::OkStatus();
  }
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  ASSIGN_OR_RETURN(*message.mutable_content(), TextField(object, "chat"));
  return absl::OkStatus();
}

absl::StatusOr<SuitePrompt> ParsePrompt(absl::string_view line) {
  const SuiteJson object =
      SuiteJson::parse(line.begin(), line.end(), /*cb=*/nullptr,
                       /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  SuitePrompt prompt;
  if (object.contains("id")) {
    ASSIGN_OR_RETURN(prompt.id, TextField(object, "id"));
  }
  RETURN_IF_ERROR(SetInput(object, prompt.request));
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
