#include "coordinator/local/text_agreement.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier::local {
namespace {

TEST(TextAgreementTest, AddsDivergenceTopAndLikelihood) {
  const float ln2 = std::log(2.0f);
  TextAgreement agreement;
  // (1/2, 1/4, 1/4) and, shifted, (1/4, 1/4, 1/2).
  const std::vector<float> p = {ln2, 0, 0}, q = {5, 5, 5 + ln2};
  agreement.Add(p, q, /*next=*/1);
  EXPECT_NEAR(agreement.mean_kl(), ln2 / 4, 1e-6);
  EXPECT_EQ(agreement.top1(), 0);
  EXPECT_NEAR(agreement.perplexity(), 4, 1e-5);
  agreement.Add(p, p, /*next=*/0);
  EXPECT_NEAR(agreement.mean_kl(), ln2 / 8, 1e-6);
  EXPECT_EQ(agreement.top1(), 0.5);
  EXPECT_NEAR(agreement.perplexity(), std::sqrt(8), 1e-5);
}

class CompareOnTextTest : public ::testing::Test {
 protected:
  std::unique_ptr<LanguageModel> Load(uint64_t seed) {
    const std::string folder = ::testing::TempDir() + "/text_agreement_test";
    testing::WriteTinyLlama(folder, seed);
    auto model = LoadModel({.folder = folder, .threads = 1});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
};

TEST_F(CompareOnTextTest, ModelAgreesWithItselfAndNotWithAnother) {
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 205; ++i) text.push_back(i * 37 % 250);
  const auto model = Load(1), same = Load(1), other = Load(2);
  const WindowedText windows = {.tokens = text, .window = 100};
  TextAgreement equal, different;
  ASSERT_TRUE(CompareOnText(*model, *same, windows, equal).ok());
  // The windows have 100, 100 and 5 tokens.
  EXPECT_EQ(equal.positions, 99 + 99 + 4);
  EXPECT_EQ(equal.kl, 0);
  EXPECT_EQ(equal.top1(), 1);
  EXPECT_GT(equal.perplexity(), 1);
  ASSERT_TRUE(CompareOnText(*model, *other, windows, different).ok());
  EXPECT_GT(different.mean_kl(), 0.01);
  EXPECT_LT(different.top1(), 1);
  EXPECT_EQ(model->kv_usage().used_tokens, 0);
}

// Each token of a window follows its prefix, the first one too, and no position
// within the prefix counts.
TEST_F(CompareOnTextTest, EveryWindowFollowsThePrefix) {
  const std::vector<TokenId> text = {9, 8, 7}, prefix = {1, 2, 3};
  const std::vector<TokenId> joined = {1, 2, 3, 9, 8, 7};
  const auto model = Load(1), same = Load(1);
  TextAgreement part, whole, before;
  ASSERT_TRUE(CompareOnText(*model, *same,
                            {.tokens = text, .prefix = prefix, .window = 100},
                            part)
                  .ok());
  ASSERT_TRUE(
      CompareOnText(*model, *same, {.tokens = joined, .window = 100}, whole)
          .ok());
  ASSERT_TRUE(
      CompareOnText(*model, *same, {.tokens = prefix, .window = 100}, before)
          .ok());
  EXPECT_EQ(part.positions, 3);
  EXPECT_NEAR(part.nll, whole.nll - before.nll, 1e-4);
}

}  // namespace
}  // namespace espalier::local
