#include "verifier/distributions/pass_distributions.h"

#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "tests/verifier/tree_pass.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using ::testing::HasSubstr;

// Asks for the distribution of the root.
class DistributionReader final : public VerificationRule {
 public:
  absl::StatusOr<Acceptance> Accept(const TokenTree&, int64_t position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    auto distribution = distributions.DistributionAt(0);
    if (!distribution.ok()) return distribution.status();
    return Acceptance{{}, sampler.SampleToken(position, *distribution)};
  }
};

bool IsDraw(const LogitUse& use) {
  return std::holds_alternative<DrawRequest>(use);
}

LogitUse UseOf(const VerificationRule& rule, const SamplingParams& sampling) {
  return LogitUseFor(rule, TokenTree::RootOnly(1), sampling,
                     /*first_position=*/1);
}

TEST(UseOfDistributionsTest, IsDrawsWhereNothingElseIsWanted) {
  const auto walk = NewWalkRule();
  EXPECT_TRUE(IsDraw(UseOf(*walk, {})));
  const LogitUse use = UseOf(*walk, {.temperature = 0.7f, .seed = 9});
  ASSERT_TRUE(IsDraw(use));
  EXPECT_EQ(std::get<DrawRequest>(use),
            (DrawRequest{.temperature = 0.7f, .seed = 9}));
  EXPECT_FALSE(IsDraw(UseOf(*walk, {.temperature = 1, .top_k = 5})));
  EXPECT_FALSE(IsDraw(UseOf(*walk, {.temperature = 1, .top_p = 0.9f})));
  EXPECT_FALSE(IsDraw(UseOf(DistributionReader(), {})));
}

class PassDistributionsTest : public ::testing::Test {
 protected:
  struct Walked {
    absl::Status status;
    std::vector<int32_t> path;
    TokenId bonus = 0;
    int32_t near_ties = 0;

    friend bool operator==(const Walked&, const Walked&) = default;
  };

  Walked Walk(const TokenTree& tree, const SamplingParams& sampling,
              const LogitUse& use) {
    Walked walked;
    pass_.Run(tree, sampling, use, [&](PassDistributions& distributions) {
      GumbelSampler sampler(sampling.seed);
      const auto accepted = NewWalkRule()->Accept(tree, /*first_position=*/1,
                                                  distributions, sampler);
      walked.status = accepted.status();
      if (!accepted.ok()) return;
      walked = {.path = accepted->path,
                .bonus = accepted->bonus_token,
                .near_ties = sampler.near_ties()};
    });
    return walked;
  }

  TreePass pass_{{.vocab_size = 6, .deviation = 1.0f}};
};

TEST_F(PassDistributionsTest, WalkOverDrawsIsTheWalkOverDistributions) {
  std::mt19937 random(1);
  size_t longest = 0;
  for (int round = 0; round < 500; ++round) {
    TokenTree tree = TokenTree::RootOnly(static_cast<TokenId>(random() % 6));
    while (tree.num_nodes() < 24) {
      tree.Add(static_cast<int32_t>(random() % tree.num_nodes()),
               static_cast<TokenId>(random() % 6), 0);
    }
    const SamplingParams sampling = {.temperature = 0.5f * (round % 4),
                                     .seed = random()};
    const LogitUse use = UseOf(*NewWalkRule(), sampling);
    ASSERT_TRUE(IsDraw(use));
    const Walked walked = Walk(tree, sampling, use);
    EXPECT_EQ(walked, Walk(tree, sampling, AnyUse{}));
    longest = std::max(longest, walked.path.size());
  }
  EXPECT_GE(longest, 3u);  // otherwise depths are not tested
}

TEST_F(PassDistributionsTest, LogitThatIsNotFiniteIsNamedWithItsNode) {
  pass_.model().set_spoil([](std::vector<float>& row) {
    row[2] = std::numeric_limits<float>::infinity();
  });
  for (const LogitUse& use : {LogitUse(DrawRequest{}), LogitUse(AnyUse{})}) {
    const Walked walked = Walk(TokenTree::RootOnly(1), {}, use);
    EXPECT_EQ(walked.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(walked.status.message(),
                HasSubstr("after node 0: logit of token 2 is inf"));
  }
}

}  // namespace
}  // namespace espalier::verifier
