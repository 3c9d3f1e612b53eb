#include "coordinator/api/generate_request.h"

#include <functional>
#include <string>

#include "common/speculation/request_errors.h"
#include "common/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/source_path.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kContext = 256;

class GenerateRequestTest : public ::testing::Test {
 protected:
  GenerateRequestTest() {
    auto loaded = Tokenizer::Load(SourcePath("deploy/models/nanogpt-char"));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *std::move(loaded);
    model_ = {.name = "tiny", .tokenizer = tokenizer_.get()};
  }

  absl::Status Parse() const {
    return ParseGenerateRequest(request_, model_, absl::InfiniteFuture())
        .status();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ServedModel model_;
  v1::GenerateRequest request_;
};

TEST_F(GenerateRequestTest, AHugePromptIsRefusedByItsSize) {
  request_.set_prompt(std::string(3 << 20, 'a'));
  absl::Status status = CheckPromptSize(request_, model_, kContext);
  EXPECT_EQ(FieldOf(status), "prompt");
  EXPECT_THAT(status.message(), HasSubstr("3145728 bytes; at most 65536 can "
                                          "fit the context of 256 tokens"));
  request_.set_prompt(std::string(5 << 20, 'a'));
  status = CheckPromptSize(request_, model_, 1 << 30);
  EXPECT_THAT(status.message(), HasSubstr("at most 4194304 are taken "
                                          "(core.max_prompt_kib)"));
  model_.chat_template.reset();
  request_.mutable_chat()->add_messages()->set_role(std::string(3 << 20, 'a'));
  status = CheckPromptSize(request_, model_, kContext);
  EXPECT_EQ(FieldOf(status), "chat");
  EXPECT_LT(status.message().size(), 200);
}

TEST_F(GenerateRequestTest, TooManyIdsAreRefusedUnderTheirOwnName) {
  for (int i = 0; i < kContext; ++i) request_.mutable_token_ids()->add_ids(1);
  EXPECT_EQ(FieldOf(CheckPromptSize(request_, model_, kContext)), "token_ids");
  request_.mutable_token_ids()->mutable_ids()->RemoveLast();
  EXPECT_TRUE(CheckPromptSize(request_, model_, kContext).ok());
  EXPECT_EQ(PromptField(request_), "token_ids");
}

TEST_F(GenerateRequestTest, NamesAreBoundedAndPrintable) {
  const std::function<void(const std::string&)> setters[] = {
      [&](const std::string& name) { request_.set_request_id(name); },
      [&](const std::string& name) {
        request_.mutable_speculation()->set_rule(name);
      },
      [&](const std::string& name) {
        request_.mutable_speculation()->set_strategy(name);
      },
      [&](const std::string& name) {
        request_.mutable_speculation()->clear_drafters();
        request_.mutable_speculation()->add_drafters(name);
      }};
  for (const auto& set : setters) {
    set("good name");
    EXPECT_TRUE(Parse().ok()) << Parse();
    for (const std::string& bad :
         {std::string("a\nb"), std::string("a\0b", 3), std::string("\x1b[2J"),
          std::string(129, 'x'), std::string(1 << 20, '\n'), std::string()}) {
      set(bad);
      const absl::Status status = Parse();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_LT(status.message().size(), 400);
      EXPECT_EQ(status.message().find('\n'), std::string::npos);
    }
    set("good name");
  }
}

TEST_F(GenerateRequestTest, AnEmptySaltIsNoSalt) {
  const auto parse = [this] {
    return ParseGenerateRequest(request_, model_, absl::InfiniteFuture());
  };
  EXPECT_EQ(parse()->cache_salt, "");
  EXPECT_EQ(parse()->priority, 0);
  request_.set_cache_salt("mine");
  request_.set_priority(-3);
  EXPECT_EQ(parse()->cache_salt, "mine");
  EXPECT_EQ(parse()->priority, -3);
  request_.set_cache_salt("");
  EXPECT_EQ(FieldOf(parse().status()), "cache_salt");
}

TEST_F(GenerateRequestTest, TextsOfTheClientComeBackCutAndEscaped) {
  request_.set_model(std::string(1 << 20, '\n'));
  EXPECT_LT(Parse().message().size(), 500);
  EXPECT_EQ(Parse().message().find('\n'), std::string::npos);
}

TEST_F(GenerateRequestTest, AResumptionHasEveryOutputAndASeed) {
  request_.set_n(2);
  v1::Resumption& resumption = *request_.mutable_resumption();
  resumption.add_outputs()->add_token_ids(5);
  EXPECT_EQ(FieldOf(Parse()), "resumption.outputs");
  resumption.add_outputs()->set_finished(true);
  const auto parsed =
      ParseGenerateRequest(request_, model_, absl::InfiniteFuture());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->num_running_outputs(), 1);
  EXPECT_TRUE(parsed->Runs(0));
  EXPECT_FALSE(parsed->Runs(1));
  EXPECT_EQ(PromptBytes(request_), 4);
  request_.set_temperature(1);
  EXPECT_EQ(FieldOf(Parse()), "seed");
  request_.set_seed(3);
  EXPECT_TRUE(Parse().ok()) << Parse();
  resumption.mutable_outputs(0)->set_finished(true);
  EXPECT_EQ(FieldOf(Parse()), "resumption.outputs") << "nothing is left to do";
  resumption.mutable_outputs(0)->set_finished(false);
  resumption.mutable_outputs(0)->add_token_ids(~0u);
  EXPECT_EQ(FieldOf(Parse()), "resumption.outputs[0].token_ids");
}

}  // namespace
}  // namespace espalier::coordinator
