#include "coordinator/http/tools.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

constexpr size_t kMaxTools = 128;
constexpr size_t kMaxToolNameBytes = 128;

absl::StatusOr<Tool> ReadTool(const std::string& path, const Json& json) {
  const Json* type = Find(json, "type");
  if (type != nullptr && *type != "function") {
    return FieldError(absl::StrCat(path, ".type"),
                      "only \"function\" is supported");
  }
  const Json* function = Find(json, "function");
  if (function == nullptr || !function->is_object()) {
    return FieldError(absl::StrCat(path, ".function"), "must be an object");
  }
  const Json* name = Find(*function, "name");
  const std::string field = absl::StrCat(path, ".function.name");
  if (name == nullptr) return FieldError(field, "is missing");
  Tool tool;
  ASSIGN_OR_RETURN(tool.name, ReadText(field, *name));
  if (tool.name.empty() || tool.name.size() > kMaxToolNameBytes) {
    return FieldError(field,
                      absl::StrCat(tool.name.size(), " bytes, must be 1 to ",
                                   kMaxToolNameBytes));
  }
  const Json* parameters = Find(*function, "parameters");
  tool.parameters =
      parameters == nullptr ? Json{{"type", "object"}} : *parameters;
  if (!tool.parameters.is_object()) {
    return FieldError(absl::StrCat(path, ".function.parameters"),
                      "must be an object");
  }
  const Json* strict = Find(*function, "strict");
  tool.is_loose = strict != nullptr && *strict == false;
  return tool;
}

// The name in {"type": "function", "function": {"name": "f"}}.
absl::StatusOr<std::string> NameOf(const std::string& path, const Json& json) {
  const Json* function = Find(json, "function");
  const Json* name = Find(function == nullptr ? json : *function, "name");
  const std::string field = absl::StrCat(path, ".function.name");
  if (name == nullptr) return FieldError(field, "is missing");
  return ReadText(field, *name);
}

absl::Status ReadMode(const std::string& path, const std::string& mode,
                      ToolUse& use) {
  if (mode == "none") {
    use.choice = ToolUse::Choice::kNone;
  } else if (mode == "auto") {
    use.choice = ToolUse::Choice::kAuto;
  } else if (mode == "required") {
    use.choice = ToolUse::Choice::kRequired;
  } else {
    return FieldError(path, absl::StrCat("\"", Printable(mode, 64),
                                         "\" is not one of none, auto, "
                                         "required"));
  }
  return absl::OkStatus();
}

absl::Status ReadAllowed(const std::string& path, const Json& json,
                         ToolUse& use) {
  const Json* mode = Find(json, "mode");
  const Json* tools = Find(json, "tools");
  if (mode == nullptr || !mode->is_string() || tools == nullptr ||
      !tools->is_array()) {
    return FieldError(path, "must have a mode and a list of tools");
  }
  RETURN_IF_ERROR(
      ReadMode(absl::StrCat(path, ".mode"), mode->get<std::string>(), use));
  std::vector<std::string> names;
  for (const Json& tool : *tools) {
    ASSIGN_OR_RETURN(names.emplace_back(),
                     NameOf(absl::StrCat(path, ".tools"), tool));
  }
  return KeepTools(absl::StrCat(path, ".tools"), names, use);
}

}  // namespace

std::vector<std::string> ToolUse::Names() const {
  std::vector<std::string> names;
  for (const Tool& tool : tools) names.push_back(tool.name);
  return names;
}

absl::StatusOr<std::vector<Tool>> ReadTools(absl::string_view name,
                                            const Json& json) {
  if (!json.is_array()) return FieldError(name, "must be a list of tools");
  if (json.size() > kMaxTools) {
    return FieldError(name,
                      absl::StrCat(json.size(), " tools, limit ", kMaxTools));
  }
  std::vector<Tool> tools;
  for (size_t i = 0; i < json.size(); ++i) {
    ASSIGN_OR_RETURN(tools.emplace_back(), ReadTool(Item(name, i), json[i]));
  }
  return tools;
}

absl::Status KeepTools(absl::string_view name,
                       const std::vector<std::string>& names, ToolUse& use) {
  std::vector<Tool> kept;
  for (const std::string& wanted : names) {
    const auto found =
        std::find_if(use.tools.begin(), use.tools.end(),
                     [&](const Tool& tool) { return tool.name == wanted; });
    if (found == use.tools.end()) {
      return FieldError(name, absl::StrCat("no tool is named \"",
                                           Printable(wanted, 64), "\""));
    }
    kept.push_back(*found);
  }
  use.tools = std::move(kept);
  return absl::OkStatus();
}

absl::Status ReadToolChoice(absl::string_view name, const Json& json,
                            ToolUse& use) {
  const std::string path(name);
  if (json.is_string()) return ReadMode(path, json.get<std::string>(), use);
  const Json* type = Find(json, "type");
  if (type != nullptr && *type == "allowed_tools") {
    const Json* allowed = Find(json, "allowed_tools");
    return ReadAllowed(absl::StrCat(path, ".allowed_tools"),
                       allowed == nullptr ? json : *allowed, use);
  }
  if (type == nullptr || *type != "function") {
    return FieldError(absl::StrCat(path, ".type"),
                      "must be function or allowed_tools");
  }
  ASSIGN_OR_RETURN(const std::string wanted, NameOf(path, json));
  use.choice = ToolUse::Choice::kRequired;
  use.parallel = false;
  return KeepTools(absl::StrCat(path, ".function.name"), {wanted}, use);
}

}  // namespace espalier::coordinator
