// Outputs of models, read as calls of tools and thoughts. What an output says
// does not depend on how it is cut, and each call begins with its name.
#include "common/base/check.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/tool_format.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace output_parser_fuzz {

using coordinator::OutputParser;
using coordinator::ParsedText;
using coordinator::ToolCallPiece;

constexpr const char* kMarks[] = {"<tool_call>", "[TOOL_CALLS]",
                                  "<|python_tag|>", "[func_name1("};

std::vector<std::string> Seeds() {
  return {
      "<think>\nHm. </think>\n\nSure.\n<tool_call>\n{\"name\": \"f\", "
      "\"arguments\": {\"a\": \"}\\\"\", \"b\": [1, {}]}}\n</tool_call>",
      "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": "
      "\"g\", \"arguments\": \"{}\"}]",
      "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"parameters\": {}, "
      "\"name\": \"g\"}",
      "[f(a=1, b='x\\'', c=[True, None], d={'k': -2.5}), g()]"};
}

// All that the text says when it is read `size` bytes at a time.
std::string Said(std::unique_ptr<OutputParser> parser, std::string_view text,
                 size_t size) {
  std::string content, thoughts, calls;
  int64_t latest = -1;
  const auto add = [&](const ParsedText& piece) {
    content += piece.content;
    thoughts += piece.reasoning;
    for (const ToolCallPiece& call : piece.calls) {
      ESPALIER_CHECK(call.name.empty() == (call.index == latest));
      if (call.index != latest) calls += "\n" + call.name + "\n";
      calls += call.arguments;
      latest = call.index;
    }
  };
  for (size_t at = 0; at < text.size(); at += size) {
    const std::string_view cut = text.substr(at, size);
    ParsedText piece;
    parser->Push({cut.data(), cut.size()}, piece);
    add(piece);
  }
  ParsedText rest;
  parser->Finish(rest);
  add(rest);
  return content + "\n" + thoughts + calls;
}

bool Try(std::string_view bytes) {
  bool has_calls = false;
  for (const char* mark : kMarks) {
    const auto& format = coordinator::FormatOf(mark);
    const auto parser = [&] {
      return coordinator::NewReasoningParser(/*is_open=*/false,
                                             format.parser({"f", "g"}));
    };
    const std::string whole = Said(parser(), bytes, bytes.size() + 1);
    ESPALIER_CHECK(Said(parser(), bytes, 1) == whole);
    ESPALIER_CHECK(Said(parser(), bytes, 3) == whole);
    ESPALIER_CHECK(whole.size() <= 2 * bytes.size() + 64);
    has_calls |= whole.find("\nf\n") != whole.npos;
  }
  return has_calls;
}

}  // namespace output_parser_fuzz

FuzzTarget OutputParserTarget() {
  return {"output_parser", output_parser_fuzz::Seeds, output_parser_fuzz::Try};
}

}  // namespace espalier::testing
