// Only distributions of trusted drafters reach the verifier.
#include <string>
#include <utility>

#include "prometheus/metric_family.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

// Returns a chain in which every token was sampled from a distribution of that
// token and another.
TokenTree SampledChain(const ToyTarget& target, std::vector<TokenId> text,
                       const DraftBudget& budget) {
  TokenTree tree = TokenTree::RootOnly(text.back());
  const int64_t depth = std::min(budget.max_depth, budget.max_nodes);
  for (int32_t i = 0; i < depth; ++i) {
    const TokenId token = target.Next(text);
    const TokenId other = token == 0 ? 1 : token - 1;
    const int32_t distribution = tree.distributions.Add(
        {std::min(token, other), std::max(token, other)},
        {kDistributionTotal / 2, kDistributionTotal / 2});
    text.push_back(token);
    tree.samples.push_back({.node = tree.Add(i, token, -0.7f * (i + 1)),
                            .distribution = distribution});
  }
  return tree;
}

double DistributionsIgnored(const ToyCluster& cluster,
                            const std::string& drafter) {
  for (const prometheus::MetricFamily& family : cluster.metrics.Collect()) {
    if (family.name != "espalier_drafter_distributions_ignored_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (metric.label[0].value == drafter) return metric.counter.value;
    }
  }
  return -1;
}

class TrustedDraftersTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Two drafters that sample their trees.
  Seen Run(ToyCluster& cluster) {
    for (const auto& drafter : cluster.drafters) {
      drafter->DraftBy([&cluster](const std::vector<TokenId>& text,
                                  const DraftBudget& budget) {
        return SampledChain(cluster.target, text, budget);
      });
    }
    cluster.info->rules.push_back("lvseq-gr");
    cluster.info->distribution_rules.push_back("lvseq-gr");
    GenerationRequest request = ToyCluster::Request(30);
    request.sampling.temperature = 1;
    request.speculation.strategy = GetParam();
    request.speculation.rule = "lvseq-gr";
    request.speculation.max_nodes = 9;
    Seen seen = cluster.Run(request);
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    return seen;
  }
};

TEST_P(TrustedDraftersTest, DistributionsOfOthersAreDroppedAndCounted) {
  ToyCluster cluster(2);
  const Seen seen = Run(cluster);
  // The toy verifier applies the walk, as a verifier does without draft
  // distributions.
  ASSERT_EQ(seen.report.warnings.size(), 1u);
  EXPECT_NE(seen.report.warnings[0].find("core.trusted_drafters"),
            std::string::npos)
      << seen.report.warnings[0];
  for (const VerifyRequest& request : cluster.verifier.requests()) {
    EXPECT_GT(request.tree.num_nodes(), 1);
    EXPECT_FALSE(request.tree.claims_distributions());
  }
  EXPECT_GT(DistributionsIgnored(cluster, "d0"), 0);
  EXPECT_GT(DistributionsIgnored(cluster, "d1"), 0);
}

TEST_P(TrustedDraftersTest, DistributionsOfTheTrustedArriveWhole) {
  ToyCluster cluster(2, {}, /*trusted=*/true);
  Run(cluster);
  const bool single = GetParam() == std::string("single");
  for (const VerifyRequest& request : cluster.verifier.requests()) {
    if (request.tree.num_nodes() == 1) continue;  // the last token
    // Each of two drafters gets four of nine nodes, all of them samples.
    EXPECT_TRUE(request.tree.claims_distributions());
    EXPECT_EQ(request.tree.distributions.size(),
              std::ssize(request.tree.samples));
    EXPECT_EQ(std::ssize(request.tree.samples) <= 9, true);
    if (!single) {
      EXPECT_EQ(std::ssize(request.tree.samples) % 2, 0);
    }
  }
  EXPECT_EQ(DistributionsIgnored(cluster, "d0"), 0);
}

// The only tree of a drafter that hangs.
TEST_P(TrustedDraftersTest, DistributionsOfAPartAreDroppedToo) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave({.delay = kHeld, .part = [](Proposal&) {}});
  const Seen seen = Run(cluster);
  EXPECT_GT(seen.report.spec.num_accepted_draft_tokens, 0);
  for (const VerifyRequest& request : cluster.verifier.requests()) {
    EXPECT_FALSE(request.tree.claims_distributions());
  }
  EXPECT_GT(DistributionsIgnored(cluster, "d0"), 0);
}

INSTANTIATE_TEST_SUITE_P(Strategies, TrustedDraftersTest,
                         ::testing::Values("single", "union", "disjoint"),
                         [](const auto& named) {
                           return std::string(named.param);
                         });

}  // namespace
}  // namespace espalier::coordinator
