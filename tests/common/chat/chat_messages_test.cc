#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/chat/messages.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

using testing::HasSubstr;

TEST(MessagesTest, KeepTheOrderOfKeys) {
  const auto input = ToTemplateInput(
      {.messages = {{.role = "user", .content = "Hi"}},
       .tools = R"([{"type": "function", "function": {"name": "f", "a": 1}}])",
       .template_args = R"({"z": true, "b": null})"});
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->dump(),
            R"({"messages":[{"role":"user","content":"Hi"}],"tools":)"
            R"([{"type":"function","function":{"name":"f","a":1}}],)"
            R"("z":true,"b":null})");
}

TEST(MessagesTest, ArgumentsOfCallsBecomeObjects) {
  for (const char* arguments :
       {R"({"city":"Oslo"})", R"("{\"city\": \"Oslo\"}")"}) {
    const std::string calls =
        std::string(R"([{"id":"1","function":{"name":"w","arguments":)") +
        arguments + "}}]";
    const auto input = ToTemplateInput(
        {.messages = {{.role = "assistant", .tool_calls = calls}}});
    ASSERT_TRUE(input.ok()) << input.status();
    EXPECT_EQ((*input)["messages"][0]["tool_calls"][0]["function"]["arguments"]
                  .dump(),
              R"({"city":"Oslo"})");
  }
}

TEST(MessagesTest, NamesTheFieldThatIsWrong) {
  const ChatMessage user = {.role = "user"};
  const auto with_calls = [&](const char* calls) {
    return Conversation{
        .messages = {user, {.role = "assistant", .tool_calls = calls}}};
  };
  const std::vector<std::pair<Conversation, std::string>> cases = {
      {{.messages = {user}, .tools = "{}"}, "chat.tools"},
      {{.messages = {user}, .tools = "[]"}, "chat.tools"},
      {{.messages = {user}, .tools = "[1]"}, "chat.tools"},
      {{.messages = {user}, .tools = "[{\"a\": 1, \"a\": 2}]"}, "chat.tools"},
      {{.messages = {user}, .tools = "nonsense"}, "chat.tools"},
      {{.messages = {user}, .tools = "[{\"a\": 18446744073709551616}]"},
       "chat.tools"},
      {{.messages = {user}, .template_args = "[]"}, "chat.template_args"},
      {{.messages = {user}, .template_args = R"({"messages": []})"},
       "chat.template_args"},
      {with_calls("[]"), "chat.messages[1].tool_calls"},
      {with_calls("[1]"), "chat.messages[1].tool_calls[0]"},
      {with_calls("[{\"function\": {}}]"), "chat.messages[1].tool_calls[0]"},
      {with_calls(R"([{"name": "f", "arguments": "x"}])"),
       "chat.messages[1].tool_calls[0].arguments"},
      {with_calls(R"([{"name": "f", "arguments": [1]}])"),
       "chat.messages[1].tool_calls[0].arguments"}};
  for (const auto& [conversation, field] : cases) {
    EXPECT_EQ(FieldOf(ToTemplateInput(conversation).status()), field);
  }
}

}  // namespace
}  // namespace espalier
