// Tokens that the CUDA backend draws under filters are those that the verifier
// draws from whole rows of its logits.

#include <random>
#include <string>
#include <vector>

#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"
#include "verifier/distributions/pass_distributions.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

class FilteredDrawsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasCudaTestDevice()) GTEST_SKIP() << "no device to test";
    const std::string folder = ::testing::TempDir() + "/filtered_draws_test";
    testing::WriteWideLlama(folder);
    auto model = LoadModel({.folder = folder,
                            .device = testing::CudaTestDevice(),
                            .compute_dtype = ComputeDType::kBFloat16,
                            .kv_pool_bytes = 1 << 20,
                            .backend = "cuda"});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    cache_ = model_->NewSequence();
    for (int node = 1; node < kNodes; ++node) {
      tree_.Add(static_cast<int32_t>(random_() % node),
                static_cast<TokenId>(random_() % 256), 0);
    }
  }

  std::unique_ptr<LogitRows> Pass(const LogitUse& use) {
    const SequenceRows rows = {.cache = cache_,
                               .tokens = tree_.tokens,
                               .parents = tree_.parents,
                               .num_logit_rows = kNodes,
                               .use = use};
    auto done = model_->Forward({&rows, 1});
    EXPECT_TRUE(done.ok()) << done.status();
    return *std::move(done);
  }

  static constexpr int kNodes = 24;
  std::mt19937_64 random_{3};
  std::unique_ptr<LanguageModel> model_;
  CacheId cache_ = 0;
  TokenTree tree_ = TokenTree::RootOnly(7);
};

TEST_F(FilteredDrawsTest, AreThoseOfWholeRows) {
  const auto walk = NewWalkRule();
  const auto whole = Pass(AnyUse{});
  int drawn = 0, left = 0;
  for (const SamplingParams& filters :
       {SamplingParams{.temperature = 1, .top_k = 1},
        {.temperature = 0.8f, .top_k = 40},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 2, .top_k = 100, .top_p = 0.7f},
        {.temperature = 1.5f, .top_p = 0.999f, .min_p = 0.01f},
        {.temperature = 0.5f, .min_p = 0.2f},
        {.temperature = 1, .top_k = 20, .top_p = 0.5f, .min_p = 0.02f}}) {
    SamplingParams sampling = filters;
    sampling.seed = random_();
    const LogitUse use = LogitUseFor(*walk, tree_, sampling, 1);
    ASSERT_TRUE(std::holds_alternative<FilteredDrawRequest>(use));
    const auto filtered = Pass(use);
    DistributionTransform transforms[2];
    const auto distributions = [&](const LogitRows& rows, LogitUse asked,
                                   DistributionTransform& transform) {
      return PassDistributions({.tree = tree_,
                                .sampling = sampling,
                                .use = asked,
                                .rows = rows,
                                .first_position = 1},
                               transform);
    };
    PassDistributions got = distributions(*filtered, use, transforms[0]);
    PassDistributions wanted = distributions(*whole, AnyUse{}, transforms[1]);
    const std::vector<int32_t> depths = tree_.Depths();
    for (int32_t node = 0; node < kNodes; ++node) {
      const auto a = got.DistributionAt(node);
      const auto b = wanted.DistributionAt(node);
      ASSERT_TRUE(a.ok() && b.ok());
      GumbelSampler samplers[] = {GumbelSampler(sampling.seed),
                                  GumbelSampler(sampling.seed)};
      const int64_t position = 1 + depths[node];
      EXPECT_EQ(samplers[0].SampleToken(position, *a),
                samplers[1].SampleToken(position, *b));
      EXPECT_EQ(samplers[0].near_ties(), samplers[1].near_ties());
      ++(a->log_weights.size() == 1 ? drawn : left);
    }
  }
  EXPECT_GT(drawn, 20 * left);  // else the draws do not pay
}

TEST(UseOfDistributionsTest, IsFilteredDrawsWhereAModelMayFilter) {
  const auto walk = NewWalkRule();
  const auto use = [&](const SamplingParams& sampling) {
    return LogitUseFor(*walk, TokenTree::RootOnly(1), sampling, 1);
  };
  const LogitUse filtered = use({.temperature = 0.7f,
                                 .top_k = 5,
                                 .top_p = 0.5f,
                                 .min_p = 0.1f,
                                 .seed = 9});
  ASSERT_TRUE(std::holds_alternative<FilteredDrawRequest>(filtered));
  EXPECT_EQ(std::get<FilteredDrawRequest>(filtered),
            (FilteredDrawRequest{.draw = {.temperature = 0.7f, .seed = 9},
                                 .top_k = 5,
                                 .top_p = 0.5f,
                                 .min_p = 0.1f}));
  // Greedy draws have nothing to filter; no kernel knows typical-p.
  EXPECT_TRUE(std::holds_alternative<DrawRequest>(use({.top_k = 5})));
  EXPECT_TRUE(std::holds_alternative<AnyUse>(
      use({.temperature = 1, .top_k = 5, .typical_p = 0.9f})));
}

}  // namespace
}  // namespace espalier::verifier
