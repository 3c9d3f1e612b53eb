#ifndef ESPALIER_COORDINATOR_HTTP_TOOL_FORMAT_H_
#define ESPALIER_COORDINATOR_HTTP_TOOL_FORMAT_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/http/output_parser.h"
#include "coordinator/http/tools.h"

namespace espalier::coordinator {

// How the models of one family write calls of tools. Stateless.
struct ToolFormat {
  absl::string_view name;
  // A chat template of the family has it in its text.
  absl::string_view mark;
  // A call is `begin`, the tool's name, `middle`, the arguments, `end`.
  absl::string_view begin;
  absl::string_view middle;
  absl::string_view end;
  absl::string_view separator;
  // Around all calls of a forced answer, such as the brackets of a list.
  absl::string_view list_begin = "";
  absl::string_view list_end = "";
  // The beginning of a call that free text does not have; empty: there is no
  // such text, and calls that nobody has forced are not held to schemas.
  absl::string_view trigger = "";
  // Reads outputs of the family, and those that Forced has made.
  std::unique_ptr<OutputParser> (*parser)(std::vector<std::string> names);
  std::unique_ptr<OutputParser> (*forced_parser)(
      std::vector<std::string> names);
  // Is true if the mark of a call is a special token, which has a text only if
  // the request wants it.
  bool has_special_mark = false;
};

// The format of a model by its chat template; for a template that has none, the
// generic one, which is Hermes'.
const ToolFormat& FormatOf(absl::string_view chat_template);

// Structural tags of xgrammar: an answer that consists of calls, and one in
// which a call that has begun is held to its tool's schema. The latter is null
// where the format has no trigger.
Json ForcedCalls(const ToolFormat& format, const ToolUse& use);
Json FreeCalls(const ToolFormat& format, const ToolUse& use);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_TOOL_FORMAT_H_
