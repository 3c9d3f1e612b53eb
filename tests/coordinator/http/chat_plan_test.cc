#include "coordinator/http/chat_plan.h"

#include <memory>
#include <string>

#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/http/chat_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A model of single characters whose prompts end with `end`.
class ChatPlanTest : public ::testing::Test {
 protected:
  void Serve(const std::string& end) {
    TokenizerFile file;
    for (int c = 0x21; c < 0x7F; ++c) {
      file.vocabulary[std::string(1, static_cast<char>(c))] = c;
    }
    file.vocabulary["\u0120"] = 32;
    file.vocabulary["\u010A"] = 10;
    auto tokenizer = Tokenizer::Create(
        file,
        {.chat_template = "{% for m in messages %}{{ m.content }};{% endfor %}"
                          "{{ tools }}{# <tool_call> <think> #}"
                          "{% if add_generation_prompt %}" +
                          end + "{% endif %}"});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    auto chat_template = NewChatTemplate(tokenizer_.get());
    ASSERT_TRUE(chat_template.ok()) << chat_template.status();
    model_ = {.name = "toy",
              .tokenizer = tokenizer_.get(),
              .chat_template = *std::move(chat_template)};
  }

  // The structural tag of a request with these further fields.
  std::string Tag(const std::string& more) {
    auto request = ReadChatRequest(Json::parse(
        R"({"messages": [{"role": "user", "content": "a"}], "tools":
            [{"type": "function", "function": {"name": "f"}}])" +
        more + "}"));
    EXPECT_TRUE(request.ok()) << request.status();
    const absl::Status status = PlanChat(model_, *request);
    EXPECT_TRUE(status.ok()) << status;
    return request->generate.structured_output().structural_tag();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ServedModel model_;
};

constexpr char kForced[] = R"(, "tool_choice": "required")";
constexpr char kHeld[] = R"(, "tool_choice": "none", "guided_regex": "x")";

TEST_F(ChatPlanTest, WhatIsForcedComesAfterThoughtsThatThePromptHasBegun) {
  Serve("<think>");
  EXPECT_THAT(
      Tag(kForced),
      HasSubstr(R"({"type":"tag","begin":"","content":{"type":"any_text)"));
  EXPECT_THAT(Tag(kForced), HasSubstr(R"("end":"</think>")"));
  EXPECT_THAT(Tag(kForced), HasSubstr("tags_with_separator"));
  EXPECT_THAT(Tag(kHeld), HasSubstr(R"({"type":"regex","pattern":"x"})"));
}

TEST_F(ChatPlanTest, WithoutThoughtsItIsAllOfTheOutput) {
  Serve(">");
  EXPECT_THAT(Tag(kForced), Not(HasSubstr("</think>")));
  EXPECT_EQ(Tag(kHeld), "");
}

TEST_F(ChatPlanTest, CallsThatNobodyForcesMayComeAnywhere) {
  Serve("<think>");
  EXPECT_THAT(Tag(""), HasSubstr("triggered_tags"));
  EXPECT_THAT(Tag(""), Not(HasSubstr("any_text")));
}

}  // namespace
}  // namespace espalier::coordinator
