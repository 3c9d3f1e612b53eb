#include <random>
#include <string>
#include <vector>

#include "coordinator/http/json_calls.h"
#include "coordinator/http/pythonic_calls.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/tool_format.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

const std::vector<std::string> kNames = {"f", "get_time"};

// All that a text says, in one line.
std::string Said(const ParsedText& text) {
  std::string said = text.content;
  if (!text.reasoning.empty()) said = "(" + text.reasoning + ")" + said;
  for (const ToolCallPiece& call : text.calls) {
    said += "|" + call.name + call.arguments;
  }
  return said;
}

// Joins what pieces say.
void Join(const ParsedText& piece, ParsedText& all) {
  all.content += piece.content;
  all.reasoning += piece.reasoning;
  for (const ToolCallPiece& call : piece.calls) all.AddCall(call);
}

// What an output says, which is the same however it is cut.
template <typename NewParser>
std::string Parse(NewParser parser, const std::string& text) {
  std::mt19937 random(7);
  std::string first;
  for (int run = 0; run < 20; ++run) {
    const auto reader = parser();
    ParsedText all;
    for (size_t at = 0; at < text.size();) {
      const size_t size = run == 0 ? text.size() : 1 + random() % 5;
      ParsedText piece;
      reader->Push(absl::string_view(text).substr(at, size), piece);
      Join(piece, all);
      at += size;
    }
    ParsedText last;
    reader->Finish(last);
    Join(last, all);
    if (run == 0) first = Said(all);
    EXPECT_EQ(Said(all), first) << text;
  }
  return first;
}

std::string Hermes(const std::string& text) {
  return Parse([] { return FormatOf("<tool_call>").parser(kNames); }, text);
}

TEST(OutputParserTest, HermesCallsAmongText) {
  EXPECT_EQ(Hermes("just text\n"), "just text\n");
  EXPECT_EQ(Hermes("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
                   "\"}\\\"\", \"b\": [1, {}]}}\n</tool_call>"),
            "|f{\"a\": \"}\\\"\", \"b\": [1, {}]}");
  EXPECT_EQ(Hermes("Sure. \n<tool_call>{\"arguments\": {}, \"name\": \"f\"}"
                   "</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call>\n"),
            "Sure.|f{}|g{}");
  EXPECT_EQ(Hermes("<tool_call>{\"name\": \"f\", \"id\": 7, \"x\": null, "
                   "\"arguments\": \"{\\\"a\\\": 1}\"}</tool_call> and text"),
            " and text|f{\"a\": 1}");
}

TEST(OutputParserTest, WhatIsNoCallIsContent) {
  EXPECT_EQ(Hermes("a <tool> <tool_call"), "a <tool> <tool_call");
  EXPECT_EQ(Hermes("<tool_call>\nnot json</tool_call>"),
            "<tool_call>\nnot json</tool_call>");
  EXPECT_EQ(Hermes("<tool_call>{\"nam\": 1}</tool_call>"),
            "<tool_call>{\"nam\": 1}</tool_call>");
  EXPECT_EQ(Hermes("<tool_call>{\"name\": "), "<tool_call>{\"name\": ");
  EXPECT_EQ(Hermes("<<tool_call>{\"name\": \"f\"}</tool_call>"), "<|f{}");
}

TEST(OutputParserTest, ACallThatBreaksOffKeepsWhatItSaid) {
  EXPECT_EQ(Hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1"),
            "|f{\"a\": [1");
}

TEST(OutputParserTest, LlamaCallsAreTheWholeOutput) {
  const auto llama = [](const std::string& text) {
    return Parse([] { return FormatOf("<|python_tag|>").parser(kNames); },
                 text);
  };
  EXPECT_EQ(llama("{\"name\": \"f\", \"parameters\": {\"a\": 1}}"),
            "|f{\"a\": 1}");
  EXPECT_EQ(llama("{\"name\": \"f\", \"parameters\": {}}; {\"name\": "
                  "\"get_time\", \"parameters\": {}}\n"),
            "|f{}|get_time{}");
  EXPECT_EQ(llama("{\"name\": \"Anna\", \"age\": 3}"),
            "{\"name\": \"Anna\", \"age\": 3}");
  EXPECT_EQ(llama("text {\"name\": \"f\"}"), "text {\"name\": \"f\"}");
}

TEST(OutputParserTest, MistralCallsAreAList) {
  const auto mistral = [](const std::string& text) {
    return Parse([] { return FormatOf("[TOOL_CALLS]").parser(kNames); }, text);
  };
  EXPECT_EQ(mistral("[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, "
                    "{\"name\": \"g\", \"arguments\": {\"a\": 1}}]"),
            "|f{}|g{\"a\": 1}");
  EXPECT_EQ(mistral("text"), "text");
}

TEST(OutputParserTest, PythonicCallsBecomeJson) {
  const auto pythonic = [](const std::string& text) {
    return Parse([] { return NewPythonicCalls(kNames); }, text);
  };
  EXPECT_EQ(pythonic("[f(a=1, b='x\\'', c=[True, None], d={'k': -2.5}), "
                     "get_time()]"),
            "|f{\"a\":1,\"b\":\"x'\",\"c\":[true,null],\"d\":{\"k\":-2.5}}"
            "|get_time{}");
  EXPECT_EQ(pythonic("[1, 2]"), "[1, 2]");
  EXPECT_EQ(pythonic("[unknown(a=1)]"), "[unknown(a=1)]");
  EXPECT_EQ(pythonic("[f(a=1"), "[f(a=1");
  EXPECT_EQ(pythonic("text [f()]"), "text [f()]");
}

TEST(OutputParserTest, ThoughtsComeBeforeTheAnswer) {
  const auto parse = [](bool is_open, const std::string& text) {
    return Parse(
        [is_open] {
          return NewReasoningParser(is_open,
                                    FormatOf("<tool_call>").parser(kNames));
        },
        text);
  };
  EXPECT_EQ(parse(false, "<think>\nHm. Well.\n</think>\n\nYes."),
            "(Hm. Well.)Yes.");
  EXPECT_EQ(parse(true, "\nHm.</think>Yes."), "(Hm.)Yes.");
  EXPECT_EQ(parse(true, "Hm. </thin"), "(Hm. </thin)");
  EXPECT_EQ(parse(false, "No <think>."), "No <think>.");
  EXPECT_EQ(parse(false,
                  "<think></think>\n<tool_call>{\"name\": \"f\"}"
                  "</tool_call>"),
            "|f{}");
}

TEST(ToolFormatTest, MistralsMarkIsASpecialToken) {
  EXPECT_TRUE(FormatOf("[TOOL_CALLS]").has_special_mark);
  EXPECT_FALSE(FormatOf("<tool_call>").has_special_mark);
}

TEST(ToolFormatTest, ForcedAndFreeCallsAreStructuralTags) {
  const ToolUse use = {.tools = {{.name = "f", .parameters = {{"a", 1}}}},
                       .choice = ToolUse::Choice::kRequired};
  const Json forced = ForcedCalls(FormatOf(""), use);
  EXPECT_EQ(forced["format"]["type"], "tags_with_separator");
  EXPECT_EQ(forced["format"]["tags"][0]["begin"],
            "<tool_call>\n{\"name\": \"f\", \"arguments\": ");
  EXPECT_EQ(FreeCalls(FormatOf(""), use)["format"]["triggers"][0],
            "<tool_call>");
  EXPECT_TRUE(FreeCalls(FormatOf("<|python_tag|>"), use).is_null());
}

}  // namespace
}  // namespace espalier::coordinator
