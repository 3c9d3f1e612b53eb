#include "coordinator/vllm/vllm_answer.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using vllm::grpc::engine::GenerateResponse;

GenerateResponse Next(VllmAnswer& answer) {
  GenerateResponse response;
  const auto bytes = answer.Take();
  EXPECT_TRUE(bytes.has_value());
  EXPECT_TRUE(response.ParseFromString(bytes.value_or("")));
  return response;
}

LogprobRows Rows(int64_t size) {
  LogprobRows rows = {.top = 2};
  for (int64_t i = 0; i < size; ++i) {
    rows.Append(std::vector<float>{1, 2, static_cast<float>(i)}, 0);
  }
  return rows;
}

GenerationReport Report(int64_t output) {
  return {.output = output,
          .finish_reason = FinishReason::kStop,
          .matched_stop_string = "x",
          .usage = {
              .prompt_tokens = 2, .completion_tokens = 3, .cached_tokens = 1}};
}

TEST(VllmAnswerTest, AStreamHasWhatIsNewThenAnEndWithoutTokens) {
  VllmAnswer answer(/*stream=*/true);
  EXPECT_EQ(answer.Take(), std::nullopt);
  const std::vector<TokenId> prompt = {8, 9}, tokens = {4, 5, 6};
  answer.Add({.tokens = absl::MakeConstSpan(tokens).first(2),
              .logprobs = Rows(2),
              .cached_tokens = 1,
              .prompt = prompt,
              .prompt_logprobs = Rows(1)});
  const auto first = Next(answer).chunk();
  EXPECT_THAT(first.token_ids(), ElementsAre(4, 5));
  EXPECT_EQ(first.prompt_tokens(), 2u);
  EXPECT_EQ(first.completion_tokens(), 2u);
  EXPECT_EQ(first.cached_tokens(), 1u);
  EXPECT_EQ(first.output_logprobs().token_logprobs_size(), 2);
  EXPECT_THAT(first.output_logprobs().token_ids(), ElementsAre(4, 5));
  EXPECT_EQ(first.output_logprobs().top_logprobs(1).values_size(), 2);
  ASSERT_EQ(first.input_logprobs().token_logprobs_size(), 2);
  EXPECT_FALSE(first.input_logprobs().token_logprobs(0).has_value());
  EXPECT_TRUE(first.input_logprobs().token_logprobs(1).has_value());
  EXPECT_THAT(first.input_logprobs().token_ids(), ElementsAre(8, 9));

  answer.Add({.tokens = absl::MakeConstSpan(tokens).last(1)});
  answer.End(absl::OkStatus(), Report(0));
  EXPECT_GT(answer.NumBytes(), 0u);
  EXPECT_THAT(Next(answer).chunk().token_ids(), ElementsAre(6));
  const auto end = Next(answer).complete();
  EXPECT_THAT(end.output_ids(), IsEmpty());
  EXPECT_EQ(end.finish_reason(), "stop");
  EXPECT_EQ(end.matched_stop_str(), "x");
  EXPECT_EQ(end.cached_tokens(), 1u);
  EXPECT_EQ(answer.Take(), std::nullopt);
  EXPECT_EQ(answer.NumBytes(), 0u);
}

TEST(VllmAnswerTest, WithoutAStreamEachOutputIsOneMessage) {
  VllmAnswer answer(/*stream=*/false);
  const std::vector<TokenId> prompt = {8, 9}, tokens = {4, 5, 6};
  answer.Add({.tokens = tokens, .logprobs = Rows(3), .prompt = prompt});
  answer.Add({.output = 1, .tokens = tokens});
  EXPECT_EQ(answer.Take(), std::nullopt);
  answer.End(absl::OkStatus(), Report(1));
  const auto second = Next(answer).complete();
  EXPECT_EQ(second.index(), 1u);
  EXPECT_THAT(second.output_ids(), ElementsAre(4, 5, 6));
  EXPECT_EQ(second.completion_tokens(), 3u);
  EXPECT_EQ(second.prompt_tokens(), 2u);
  EXPECT_EQ(answer.Take(), std::nullopt);
  answer.End(absl::OkStatus(), Report(0));
  EXPECT_EQ(Next(answer).complete().output_logprobs().token_logprobs_size(), 3);
}

TEST(VllmAnswerTest, AnErrorHasNoEnd) {
  VllmAnswer answer(/*stream=*/false);
  answer.End(absl::InternalError("broken"), Report(0));
  EXPECT_EQ(answer.Take(), std::nullopt);
}

}  // namespace
}  // namespace espalier::coordinator
