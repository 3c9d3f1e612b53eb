#include "coordinator/cli/bench/prompt_suite.h"

#include <fstream>
#include <set>
#include <sstream>

#include "gmock/gmock.h"

namespace espalier::cli {
namespace {

using ::testing::HasSubstr;

TEST(PromptSuite, ReadsTheThreeKindsOfInput) {
  const auto good = ParsePromptSuite(
      "mine",
      "{\"id\": \"a\", \"chat\": \"hi\"}\r\n\n{\"prompt\": \"Once\"}\n"
      "{\"id\": \"c\", \"messages\": [{\"role\": \"system\", \"content\": "
      "\"Be brief.\"}, {\"role\": \"user\", \"content\": \"Why?\"}]}");
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_EQ(good->prompts.size(), 3u);
  EXPECT_EQ(good->prompts[0].id, "a");
  EXPECT_EQ(good->prompts[0].request.chat().messages(0).role(), "user");
  EXPECT_EQ(good->prompts[1].id, "3");  // its line
  EXPECT_EQ(good->prompts[1].request.prompt(), "Once");
  ASSERT_EQ(good->prompts[2].request.chat().messages_size(), 2);
  EXPECT_EQ(good->prompts[2].request.chat().messages(1).content(), "Why?");
}

TEST(PromptSuite, APromptMayHaveASchema) {
  const auto suite = ParsePromptSuite(
      "mine", R"({"chat": "hi", "json_schema": "{\"type\":\"object\"}"})");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->prompts[0].request.structured_output().json_schema(),
            R"({"type":"object"})");
  EXPECT_FALSE(
      ParsePromptSuite("mine", R"({"chat": "hi", "json_schema": {}})").ok());
}

TEST(PromptSuite, RefusesHostileLinesAndNamesThem) {
  const std::pair<std::string, std::string> cases[] = {
      {"{", "line 1: the line: not valid JSON at byte"},
      {"{\"chat\":\n\"an object has one line\"}", "not valid JSON"},
      {"null", "must be a JSON object"},
      {"[1, 2]", "must be a JSON object"},
      {std::string(100'000, '['), "nested deeper than 64"},
      {std::string("{\"chat\": \"\xff\"}"), "not valid JSON"},
      {std::string("{\"chat\"\0: \"x\"}", 14), "not valid JSON"},
      {"{}", "exactly one of"},
      {R"({"chat": "a", "prompt": "b"})", "exactly one of"},
      {R"({"chat": 7})", "chat: must "},
      {R"({"chat": ""})", "chat: must "},
      {R"({"prompt": null})", "exactly one of"},
      {R"({"id": 3, "chat": "a"})", "id: must "},
      {R"({"messages": []})", "messages: must not be empty"},
      {R"({"messages": {"role": "user"}})", "messages: must be a list"},
      {R"({"messages": ["hi"]})", "messages[0]: must be an object"},
      {R"({"messages": [{"role": "user"}]})",
       "messages[0].content: is missing"},
      {R"({"messages": [{"content": "x"}]})", "messages[0].role: is missing"},
      {"", "no prompts"},
  };
  for (const auto& [line, message] : cases) {
    const auto suite = ParsePromptSuite("mine", line);
    ASSERT_FALSE(suite.ok()) << line;
    EXPECT_EQ(suite.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(suite.status().message()), HasSubstr(message));
    EXPECT_THAT(std::string(suite.status().message()), HasSubstr("mine"));
  }
}

class ShippedSuite : public ::testing::TestWithParam<const char*> {};

TEST_P(ShippedSuite, HasAtLeastTwentyPromptsOfDistinctIds) {
  std::ifstream file(std::string(ESPALIER_SUITE_DIR) + "/" + GetParam() +
                     ".jsonl");
  std::ostringstream content;
  content << file.rdbuf();
  const auto suite = ParsePromptSuite(GetParam(), content.str());
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_GE(suite->prompts.size(), 20u);
  std::set<std::string> ids;
  for (const SuitePrompt& prompt : suite->prompts) ids.insert(prompt.id);
  EXPECT_EQ(ids.size(), suite->prompts.size());
}

INSTANTIATE_TEST_SUITE_P(All, ShippedSuite,
                         ::testing::Values("chat", "math", "code",
                                           "summarise"));

}  // namespace
}  // namespace espalier::cli
