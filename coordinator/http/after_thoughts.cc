#include "coordinator/http/after_thoughts.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/json_read.h"

namespace espalier::coordinator {
namespace {

// The constraint as a format of structural tags.
absl::StatusOr<Json> FormatOf(const v1::StructuredOutput& output) {
  switch (output.constraint_case()) {
    case v1::StructuredOutput::kJsonSchema:
      return Json{{"type", "json_schema"},
                  {"json_schema", output.json_schema()}};
    case v1::StructuredOutput::kJsonObject:
      return Json{{"type", "json_schema"},
                  {"json_schema", {{"type", "object"}}}};
    case v1::StructuredOutput::kRegex:
      return Json{{"type", "regex"}, {"pattern", output.regex()}};
    case v1::StructuredOutput::kGrammar:
      return Json{{"type", "grammar"}, {"grammar", output.grammar()}};
    case v1::StructuredOutput::kChoice: {
      Json texts = Json::array();
      for (const std::string& text : output.choice().texts()) {
        texts.push_back({{"type", "const_string"}, {"value", text}});
      }
      return Json{{"type", "or"}, {"elements", std::move(texts)}};
    }
    default:
      break;
  }
  const absl::StatusOr<Json> tag = ParseOrderedJson(output.structural_tag());
  const Json* format = tag.ok() ? Find(*tag, "format") : nullptr;
  if (format != nullptr) return *format;
  return FieldError("structured_output.structural_tag",
                    "a model that thinks first needs one with a format");
}

}  // namespace

absl::Status HoldAfterThoughts(v1::StructuredOutput& output) {
  ASSIGN_OR_RETURN(Json format, FormatOf(output));
  const Json thoughts = {{"type", "tag"},
                         {"begin", ""},
                         {"content", {{"type", "any_text"}}},
                         {"end", "</think>"}};
  const Json blank = {{"type", "const_string"}, {"value", "\n\n"}};
  Json elements = Json::array({thoughts, blank, std::move(format)});
  output.set_structural_tag(ToText(
      {{"type", "structural_tag"},
       {"format", {{"type", "sequence"}, {"elements", std::move(elements)}}}}));
  return absl::OkStatus();
}

}  // namespace espalier::coordinator
