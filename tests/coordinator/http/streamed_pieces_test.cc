// The pieces of a stream add up to the whole answer in every API, however the
// output is cut.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/http/chat_writer.h"
#include "coordinator/http/completion_writer.h"
#include "coordinator/http/messages_writer.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/responses_writer.h"
#include "coordinator/http/tool_format.h"
#include "gtest/gtest.h"
#include "tests/coordinator/http/fake_generator.h"

namespace espalier::coordinator::streamed_pieces_test {
namespace {

constexpr char kOutput[] =
    "Hm, \"ice\" <b>\n</think>\n\nGlaciers: \xE2\x9D\x84 <tool\n<tool_call>\n"
    "{\"name\": \"f\", \"arguments\": {\"a\": \"}</tool\", \"b\": [1, {}]}}\n"
    "</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

using NewWriter = std::unique_ptr<AnswerWriter> (*)(const ApiRequest& request,
                                                    AnswerName name);

ApiRequest Request(bool stream) {
  ApiRequest api = {.stream = stream};
  api.prompts.emplace_back();
  api.new_parser = [] {
    return NewReasoningParser(/*is_open=*/true,
                              FormatOf("<tool_call>").parser({"f", "g"}));
  };
  return api;
}

// Whole characters, as the coordinator sends them.
std::vector<std::string> RandomCuts(const std::string& text, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1 + random() % 9;
    while (at + size < text.size() && (text[at + size] & 0xC0) == 0x80) ++size;
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  return pieces;
}

std::string Answer(NewWriter new_writer, bool stream,
                   const std::vector<std::string>& pieces) {
  const auto writer =
      new_writer(Request(stream), {.id = "id_1", .model = "toy"});
  std::string body;
  for (const std::string& piece : pieces) {
    body += writer->Add(0, FakeGenerator::Text(piece));
  }
  body += writer->Add(0, FakeGenerator::Last());
  return body + writer->Finish();
}

std::vector<Json> Events(const std::string& stream) {
  std::vector<Json> events;
  for (const absl::string_view line : absl::StrSplit(stream, '\n')) {
    if (!absl::StartsWith(line, "data: {")) continue;
    events.push_back(Json::parse(std::string(line.substr(6))));
  }
  return events;
}

// What is said, of each kind: the thoughts, the text, the calls.
struct Said {
  std::string thoughts, text, calls;

  std::string Joined() const {
    return absl::StrCat(thoughts, "|", text, "|", calls);
  }
  void AddCall(const std::string& name, const std::string& arguments) {
    if (!name.empty()) absl::StrAppend(&calls, "\n", name, " ");
    calls += arguments;
  }
};

std::string TextOf(const Json& json, const char* name) {
  const Json* value = Find(json, name);
  return value == nullptr ? "" : value->get<std::string>();
}

// A message of OpenAI's, or a part of one.
void AddMessage(const Json& message, Said& said) {
  said.thoughts += TextOf(message, "reasoning_content");
  said.text += TextOf(message, "content");
  for (const Json& call : message.value("tool_calls", Json::array())) {
    said.AddCall(TextOf(call["function"], "name"),
                 TextOf(call["function"], "arguments"));
  }
}

std::string OfChat(const std::vector<Json>& parts, const char* member) {
  Said said;
  for (const Json& part : parts) {
    for (const Json& choice : part["choices"]) {
      AddMessage(choice[member], said);
    }
  }
  return said.Joined();
}

std::string OfMessage(const Json& message) {
  Said said;
  for (const Json& block : message["content"]) {
    said.thoughts += TextOf(block, "thinking");
    said.text += TextOf(block, "text");
    if (block["type"] == "tool_use") {
      said.AddCall(block["name"], block["input"].dump());
    }
  }
  return said.Joined();
}

std::string OfMessageEvents(const std::vector<Json>& events) {
  Json message = {{"content", Json::array()}};
  std::string input;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      message["content"].push_back(event["content_block"]);
      input.clear();
    } else if (type == "content_block_delta") {
      Json& block = message["content"].back();
      for (const char* name : {"thinking", "text"}) {
        const std::string more = TextOf(event["delta"], name);
        if (!more.empty()) block[name] = TextOf(block, name) + more;
      }
      input += TextOf(event["delta"], "partial_json");
    } else if (type == "content_block_stop" && !input.empty()) {
      message["content"].back()["input"] = Json::parse(input);
    }
  }
  return OfMessage(message);
}

std::string OfResponse(const Json& response) {
  Said said;
  for (const Json& item : response["output"]) {
    for (const Json& part : item.value("content", Json::array())) {
      (item["type"] == "reasoning" ? said.thoughts : said.text) +=
          TextOf(part, "text");
    }
    said.AddCall(TextOf(item, "name"), TextOf(item, "arguments"));
  }
  return said.Joined();
}

std::string OfResponseEvents(const std::vector<Json>& events) {
  Said said;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      said.AddCall(TextOf(event["item"], "name"), "");
    } else if (type == "response.function_call_arguments.delta") {
      said.AddCall("", event["delta"]);
    } else if (type == "response.output_text.delta") {
      said.text += event["delta"];
    } else if (type == "response.reasoning_text.delta") {
      said.thoughts += event["delta"];
    }
  }
  EXPECT_EQ(OfResponse(events.back()["response"]), said.Joined());
  return said.Joined();
}

constexpr int kRuns = 200;

TEST(StreamedPiecesTest, OfChats) {
  const std::string whole =
      OfChat({Json::parse(Answer(NewChatWriter, false, {kOutput}))}, "message");
  EXPECT_TRUE(absl::StrContains(whole, "\ng {}")) << whole;
  for (int run = 0; run < kRuns; ++run) {
    const auto events =
        Events(Answer(NewChatWriter, true, RandomCuts(kOutput, run)));
    EXPECT_EQ(OfChat(events, "delta"), whole) << run;
  }
}

TEST(StreamedPiecesTest, OfCompletions) {
  for (int run = 0; run < kRuns; ++run) {
    std::string text;
    for (const Json& event :
         Events(Answer(NewCompletionWriter, true, RandomCuts(kOutput, run)))) {
      for (const Json& choice : event["choices"]) {
        text += TextOf(choice, "text");
      }
    }
    EXPECT_EQ(text, kOutput) << run;
  }
}

TEST(StreamedPiecesTest, OfMessages) {
  const std::string whole =
      OfMessage(Json::parse(Answer(NewMessagesWriter, false, {kOutput})));
  EXPECT_TRUE(absl::StrContains(whole, "\ng {}")) << whole;
  for (int run = 0; run < kRuns; ++run) {
    const auto events =
        Events(Answer(NewMessagesWriter, true, RandomCuts(kOutput, run)));
    EXPECT_EQ(OfMessageEvents(events), whole) << run;
  }
}

TEST(StreamedPiecesTest, OfResponses) {
  const std::string whole =
      OfResponse(Json::parse(Answer(NewResponsesWriter, false, {kOutput})));
  EXPECT_TRUE(absl::StrContains(whole, "\ng {}")) << whole;
  for (int run = 0; run < kRuns; ++run) {
    const auto events =
        Events(Answer(NewResponsesWriter, true, RandomCuts(kOutput, run)));
    EXPECT_EQ(OfResponseEvents(events), whole) << run;
  }
}

}  // namespace
}  // namespace espalier::coordinator::streamed_pieces_test
