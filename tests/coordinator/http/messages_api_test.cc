// Anthropic's API, over a scripted generator.
#include <string>

#include "common/speculation/request_errors.h"
#include "coordinator/http/messages_request.h"
#include "coordinator/http/messages_writer.h"
#include "coordinator/http/tool_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/http/fake_generator.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ApiRequest> Read(const std::string& body) {
  const auto json = ReadBody(body);
  if (!json.ok()) return json.status();
  return ReadMessagesRequest(*json, /*generates=*/true);
}

std::string FieldOfError(const std::string& body) {
  const auto read = Read(body);
  return read.ok() ? "" : FieldOf(read.status()).value_or("?");
}

// The answer to `api` when the model says `texts`.
std::string Answer(const ApiRequest& api,
                   const std::vector<std::string>& texts) {
  const auto writer = NewMessagesWriter(api, {.id = "msg_1", .model = "toy"});
  std::string body;
  for (size_t i = 0; i < texts.size(); ++i) {
    v1::GenerateResponse message = FakeGenerator::Text(texts[i]);
    if (i == 0) {
      for (uint32_t id = 0; id < 5; ++id) {
        message.mutable_prompt()->add_token_ids(id);
      }
      message.set_cached_tokens(3);
    }
    body += writer->Add(0, message);
  }
  body += writer->Add(0, FakeGenerator::Last());
  return body + writer->Finish();
}

TEST(MessagesTest, ToolsAndTheirResultsBecomeAChat) {
  const auto api = Read(R"({"max_tokens": 9, "system": [{"type": "text",
      "text": "Be brief."}], "stop_sequences": ["x"], "messages": [
      {"role": "user", "content": "time?"},
      {"role": "assistant", "content": [
         {"type": "thinking", "thinking": "hm", "signature": ""},
         {"type": "text", "text": "One moment."},
         {"type": "tool_use", "id": "t1", "name": "time", "input": {"z": 1}}]},
      {"role": "user", "content": [
         {"type": "tool_result", "tool_use_id": "t1", "content": "noon"},
         {"type": "text", "text": "thanks"}]}],
      "tools": [{"name": "time", "input_schema": {"type": "object"}}],
      "tool_choice": {"type": "any", "disable_parallel_tool_use": true}})");
  ASSERT_TRUE(api.ok()) << api.status();
  const v1::Chat& chat = api->generate.chat();
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(2).content(), "One moment.");
  EXPECT_EQ(chat.messages(2).tool_calls(),
            R"([{"id":"t1","type":"function","function":{"name":"time",)"
            R"("arguments":"{\"z\":1}"}}])");
  EXPECT_EQ(chat.messages(3).role(), "tool");
  EXPECT_EQ(chat.messages(3).tool_call_id(), "t1");
  EXPECT_EQ(chat.messages(4).content(), "thanks");
  EXPECT_THAT(chat.tools(), HasSubstr(R"("parameters":{"type":"object"})"));
  EXPECT_EQ(api->tools.choice, ToolUse::Choice::kRequired);
  EXPECT_FALSE(api->tools.parallel);
}

TEST(MessagesTest, FieldsAreRefusedByName) {
  const std::string ask = R"("messages": [{"role": "user", "content": "a"}])";
  EXPECT_EQ(FieldOfError("{" + ask + "}"), "max_tokens");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1})"), "messages");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1, "n": 2, )" + ask + "}"), "n");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1, "messages": [{"role": "user",
      "content": [{"type": "image"}]}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1, "tool_choice": {"type": "tool",
      "name": "f"}, )" + ask +
                         "}"),
            "tool_choice.name");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1, "output_config": {"x": 1}, )" +
                         ask + "}"),
            "output_config.x");
  EXPECT_EQ(FieldOfError(R"({"max_tokens": 1, "tool_choice": {"type": "auto",
      "disable_parallel_tool_use": 1}, )" +
                         ask + "}"),
            "tool_choice.disable_parallel_tool_use");
}

// The system's text is the first message of the chat, and a turn with two
// results of tools is two.
TEST(MessagesTest, ErrorsOfOurOwnApiNameWhatTheClientHasSent) {
  const auto api = Read(R"({"max_tokens": 1, "system": "s", "messages": [
      {"role": "user", "content": "a"},
      {"role": "assistant", "content": [
          {"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
      {"role": "user", "content": [
          {"type": "tool_result", "tool_use_id": "1", "content": "x"},
          {"type": "text", "text": "b"}]}]})");
  ASSERT_TRUE(api.ok()) << api.status();
  ASSERT_EQ(api->generate.chat().messages_size(), 5);
  const auto name_of = [&](const std::string& field) {
    return FieldOf(WithClientNames(FieldError(field, "is wrong"), api->names));
  };
  EXPECT_EQ(name_of("chat.messages[0].content"), "system");
  EXPECT_EQ(name_of("chat.messages[1].content"), "messages[0].content");
  EXPECT_EQ(name_of("chat.messages[2].tool_calls"), "messages[1].tool_calls");
  EXPECT_EQ(name_of("chat.messages[3].content"), "messages[2].content");
  EXPECT_EQ(name_of("chat.messages[4].content"), "messages[2].content");
}

TEST(MessagesTest, ALastMessageOfTheAssistantIsContinued) {
  const auto api =
      ReadMessagesRequest(Json::parse(R"({"max_tokens": 1, "messages": [
          {"role": "user", "content": "a"},
          {"role": "assistant", "content": "b"}]})"),
                          /*generates=*/true);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->generate.chat().end(), v1::CHAT_END_CONTINUE);
}

TEST(MessagesTest, AWholeMessageHasBlocksAndCacheCounts) {
  const Json body = Json::parse(Answer(ApiRequest{}, {"Hel", "lo"}));
  EXPECT_EQ(body["content"],
            Json::array({{{"type", "text"}, {"text", "Hello"}}}));
  EXPECT_EQ(body["stop_reason"], "end_turn");
  EXPECT_EQ(body["usage"]["input_tokens"], 2);
  EXPECT_EQ(body["usage"]["cache_read_input_tokens"], 3);
  EXPECT_EQ(body["usage"]["output_tokens"], 4);
}

TEST(MessagesTest, AStreamHasABlockForThoughtsTextAndEachCall) {
  ApiRequest api = {.stream = true};
  api.new_parser = [] {
    return NewReasoningParser(true, FormatOf("<tool_call>").parser({"f"}));
  };
  const std::string events =
      Answer(api, {"Hm.</think>", "Yes.\n<tool_call>{\"name\": \"f\", \"argu",
                   "ments\": {\"a\": 1}}</tool_call>"});
  std::vector<std::string> names;
  for (size_t at = 0; (at = events.find("event: ", at)) != events.npos;) {
    at += 7;
    names.push_back(events.substr(at, events.find('\n', at) - at));
  }
  const std::vector<std::string> block = {
      "content_block_start", "content_block_delta", "content_block_stop"};
  std::vector<std::string> expected = {"message_start"};
  for (int i = 0; i < 3; ++i) {
    expected.insert(expected.end(), block.begin(), block.end());
  }
  expected.insert(expected.end(), {"message_delta", "message_stop"});
  EXPECT_EQ(names, expected);
  EXPECT_THAT(events, HasSubstr(R"("partial_json":"{\"a\": 1}")"));
  EXPECT_THAT(events, HasSubstr(R"("stop_reason":"tool_use")"));
  EXPECT_THAT(events, HasSubstr(R"("input_tokens":2)"));
}

}  // namespace
}  // namespace espalier::coordinator
