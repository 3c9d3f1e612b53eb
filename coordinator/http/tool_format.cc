#include "coordinator/http/tool_format.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/http/json_calls.h"
#include "coordinator/http/pythonic_calls.h"

namespace espalier::coordinator {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<OutputParser> Tagged(Names names) {
  return NewJsonCalls({.begin = "<tool_call>", .end = "</tool_call>"},
                      std::move(names));
}
// Calls from the beginning of the output on, one after the other or as a list.
std::unique_ptr<OutputParser> Bare(Names names) {
  return NewJsonCalls({.between = "[,];"}, std::move(names));
}
std::unique_ptr<OutputParser> Mistral(Names names) {
  return NewJsonCalls({.begin = "[TOOL_CALLS]", .between = "[,]"},
                      std::move(names));
}

constexpr ToolFormat kHermes = {.name = "hermes",
                                .mark = "<tool_call>",
                                .begin = "<tool_call>\n{\"name\": \"",
                                .middle = "\", \"arguments\": ",
                                .end = "}\n</tool_call>",
                                .separator = "\n",
                                .trigger = "<tool_call>",
                                .parser = Tagged,
                                .forced_parser = Tagged};

// Templates of Llama 3.1 differ in the mark by which they are known.
constexpr ToolFormat Llama(absl::string_view mark) {
  return {.name = "llama",
          .mark = mark,
          .begin = "{\"name\": \"",
          .middle = "\", \"parameters\": ",
          .end = "}",
          .separator = "; ",
          .parser = Bare,
          .forced_parser = Bare};
}

constexpr ToolFormat kFormats[] = {
    kHermes,
    {.name = "mistral",
     .mark = "[TOOL_CALLS]",
     .begin = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .end = "}",
     .separator = ", ",
     .list_begin = "[",
     .list_end = "]",
     .parser = Mistral,
     .forced_parser = Bare,
     .has_special_mark = true},
    {.name = "pythonic",
     .mark = "[func_name1(",
     .begin = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .end = "}",
     .separator = "; ",
     .parser = NewPythonicCalls,
     .forced_parser = Bare},
    Llama("<|python_tag|>"),
    Llama("\"parameters\": dictionary"),
};

Json TagOf(const ToolFormat& format, const Tool& tool) {
  const Json schema =
      tool.is_loose ? Json{{"type", "object"}} : tool.parameters;
  return {{"type", "tag"},
          {"begin", absl::StrCat(format.begin, tool.name, format.middle)},
          {"content", {{"type", "json_schema"}, {"json_schema", schema}}},
          {"end", std::string(format.end)}};
}

Json TagsOf(const ToolFormat& format, const ToolUse& use) {
  Json tags = Json::array();
  for (const Tool& tool : use.tools) tags.push_back(TagOf(format, tool));
  return tags;
}

Json Constant(absl::string_view text) {
  return {{"type", "const_string"}, {"value", std::string(text)}};
}

Json Tag(Json format) {
  return {{"type", "structural_tag"}, {"format", std::move(format)}};
}

}  // namespace

const ToolFormat& FormatOf(absl::string_view chat_template) {
  for (const ToolFormat& format : kFormats) {
    if (absl::StrContains(chat_template, format.mark)) return format;
  }
  return kHermes;
}

Json ForcedCalls(const ToolFormat& format, const ToolUse& use) {
  Json calls = {{"type", "tags_with_separator"},
                {"tags", TagsOf(format, use)},
                {"separator", std::string(format.separator)},
                {"at_least_one", true},
                {"stop_after_first", !use.parallel}};
  if (format.list_begin.empty()) return Tag(std::move(calls));
  return Tag(
      {{"type", "sequence"},
       {"elements", Json::array({Constant(format.list_begin), std::move(calls),
                                 Constant(format.list_end)})}});
}

Json FreeCalls(const ToolFormat& format, const ToolUse& use) {
  if (format.trigger.empty()) return nullptr;
  return Tag({{"type", "triggered_tags"},
              {"triggers", Json::array({std::string(format.trigger)})},
              {"tags", TagsOf(format, use)},
              {"at_least_one", false},
              {"stop_after_first", !use.parallel}});
}

}  // namespace espalier::coordinator
