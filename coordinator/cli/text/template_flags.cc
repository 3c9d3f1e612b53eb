#include "coordinator/cli/text/template_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace espalier::cli {
namespace {

// Protobuf strings must be UTF-8.
absl::Status SetText(const char* flag, const std::optional<std::string>& text,
                     std::string& field) {
  if (!text) return absl::OkStatus();
  if (RepairUtf8(*text) != *text) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": the text is not valid UTF-8"));
  }
  field = *text;
  return absl::OkStatus();
}

}  // namespace

void TemplateFlags::AddTo(FlagSet& flags) {
  flags.Add({"--template-args", "JSON",
             "arguments of the chat template: {\"enable_thinking\": false}"},
            &template_args_);
  flags.Add({"--tools", "JSON", "list of tools for the chat template"},
            &tools_);
}

absl::Status TemplateFlags::Set(v1::Chat& chat) const {
  RETURN_IF_ERROR(SetText("--template-args", template_args_,
                          *chat.mutable_template_args()));
  return SetText("--tools", tools_, *chat.mutable_tools());
}

}  // namespace espalier::cli
