#ifndef ESPALIER_COORDINATOR_HTTP_TOOLS_H_
#define ESPALIER_COORDINATOR_HTTP_TOOLS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/http/json_read.h"

namespace espalier::coordinator {

// A function that the model may call.
struct Tool {
  std::string name;
  Json parameters;        // a JSON schema of an object
  bool is_loose = false;  // arguments may be any object
};

// The tools of a request, and whether it wants them called.
struct ToolUse {
  enum class Choice { kNone, kAuto, kRequired };
  std::vector<Tool> tools;  // those that may be called
  Choice choice = Choice::kAuto;
  bool parallel = true;  // more than one call in an answer

  std::vector<std::string> Names() const;
};

// Reads OpenAI's `tools`. FieldErrors.
absl::StatusOr<std::vector<Tool>> ReadTools(absl::string_view name,
                                            const Json& json);
// Reads OpenAI's `tool_choice`: none, auto, required, a named tool, allowed
// tools. Leaves in `use` those that may be called. FieldErrors.
absl::Status ReadToolChoice(absl::string_view name, const Json& json,
                            ToolUse& use);
// Leaves only the tools with these names.
absl::Status KeepTools(absl::string_view name,
                       const std::vector<std::string>& names, ToolUse& use);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_TOOLS_H_
