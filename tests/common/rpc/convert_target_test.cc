#include "common/rpc/convert_target.h"

#include <optional>
#include <string>
#include <vector>

#include "common/rpc/convert.h"
#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

TEST(ConvertTarget, EveryGrammarGoesThroughUnchanged) {
  using Kind = GrammarSpec::Kind;
  for (const GrammarSpec& grammar : std::vector<GrammarSpec>{
           {.kind = Kind::kJsonSchema, .text = "{}", .compact = true},
           {.kind = Kind::kJsonObject},
           {.kind = Kind::kRegex, .text = "a"},
           {.kind = Kind::kChoice, .choices = {"a", "b"}},
           {.kind = Kind::kEbnf, .text = "root ::= \"a\""},
           {.kind = Kind::kStructuralTag, .text = "{}"}}) {
    const auto back = FromProto(ToProto(grammar));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, grammar);
  }
}

TEST(ConvertTarget, GrammarsBeyondTheLimitsAreRefusedByName) {
  const auto field = [](const v1::StructuredOutput& message) {
    return FieldOf(FromProto(message).status());
  };
  v1::StructuredOutput message;
  EXPECT_EQ(field(message), "structured_output");
  message.set_json_object(false);
  EXPECT_EQ(field(message), "structured_output.json_object");
  message.set_json_schema(std::string(kMaxGrammarBytes + 1, ' '));
  EXPECT_EQ(field(message), "structured_output.json_schema");
  message.set_regex(std::string(kMaxGrammarDepth + 1, '('));
  EXPECT_EQ(field(message), "structured_output.regex");
  message.set_regex("[((((]" + std::string(300, '\\'));
  EXPECT_EQ(field(message), std::nullopt);
  message.mutable_choice();
  EXPECT_EQ(field(message), "structured_output.choice");
  message.mutable_choice()->add_texts("");
  EXPECT_EQ(field(message), "structured_output.choice");
}

TEST(ConvertTarget, ABiasHasAValueForEachToken) {
  v1::LogitAdjustments message =
      ToProto(LogitAdjustments{.bias = {{5, -1.5f}, {8, 2.0f}}});
  message.add_bias(1);
  const absl::Status status = FromProto(message).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("2 bias_tokens, but 3 values of bias"));
}

TEST(ConvertTarget, NumbersThatDoNotFitAreRefusedByName) {
  const auto error = [](const auto& message) {
    return std::string(FromProto(message).status().message());
  };
  v1::LogitAdjustments adjustments;
  adjustments.set_min_tokens(uint64_t{1} << 31);
  EXPECT_THAT(error(adjustments), HasSubstr("adjustments.min_tokens"));
  adjustments.set_prompt_length(uint64_t{1} << 31);
  EXPECT_THAT(error(adjustments), HasSubstr("adjustments.prompt_length"));
  v1::LogprobRequest logprobs;
  logprobs.set_prompt(21);
  EXPECT_THAT(error(logprobs), HasSubstr("logprobs.prompt"));
  logprobs.set_emitted(21);
  EXPECT_THAT(error(logprobs), HasSubstr("logprobs.emitted"));
  v1::LogprobRows rows;
  rows.set_top(21);
  EXPECT_THAT(error(rows), HasSubstr("logprobs.top"));
  v1::FeatureRequest features;
  features.set_first_position(uint64_t{1} << 31);
  EXPECT_THAT(error(features), HasSubstr("features.first_position"));
}

TEST(ConvertTarget, FeatureRequestsGoThroughUnchanged) {
  for (const FeatureRequest& request : std::vector<FeatureRequest>{
           {},
           {.taps = {2, 5}, .first_position = 17},
           {.taps = {2, 5}, .first_position = 17, .deferred = true},
           {.store = {{1, 2}, {7}}}}) {
    const auto back = FromProto(ToProto(request));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, request);
  }
}

}  // namespace
}  // namespace espalier
