// A rule that reads distributions, end to end: a drafter that sends the
// distributions it sampled from, real processes, real sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

using ::testing::HasSubstr;

class FlowRuleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster(
        {.model = CharModelFolder(),
         .drafters = {{.name = "draws",
                       .type = "ngram",
                       .options = {{"table", CharBigramTable()},
                                   {"scheme", "sampled"},
                                   {"branches", "2,2,1"},
                                   {"noise_key", "77"}}},
                      {.name = "exit",
                       .type = "lm",
                       .options = {{"layers", "1"},
                                   {"scheme", "without-replacement"},
                                   {"branches", "2,1"},
                                   {"noise_key", "78"}}}},
         .coordinator_sets = {kWaitForDrafters, "core.trusted_drafters.0=draws",
                              "core.trusted_drafters.1=exit"},
         .verifier_sets = {"engine.compared_rounds=1"}});
    cluster_->AwaitReady();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  // Drafts by one drafter alone, or with the strategy "union" by both.
  static Generated Run(v1::GenerateRequest request, const std::string& rule,
                       const std::string& drafter = "draws") {
    v1::SpeculationOptions& speculation = *request.mutable_speculation();
    speculation.set_rule(rule);
    speculation.set_strategy(drafter.empty() ? "union" : "single");
    if (!drafter.empty()) speculation.add_drafters(drafter);
    Generated out = Generate(cluster_->stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    return out;
  }

  static Cluster* cluster_;
};
Cluster* FlowRuleTest::cluster_ = nullptr;

TEST_F(FlowRuleTest, RulesAreAppliedAndAcceptMoreThanTheWalk) {
  const v1::GenerateRequest request = CharRequest(1.0f, 4);
  const double walk =
      Run(request, "walk").summary.spec_stats().mean_acceptance_length();
  for (const char* rule : {"lvseq-gr", "lv-rrs", "tv-kseq", "trv", "bv"}) {
    const v1::SpecStats stats = Run(request, rule).summary.spec_stats();
    EXPECT_EQ(stats.rule(), rule);
    EXPECT_GT(stats.mean_acceptance_length(), 1.1) << rule;
  }
  EXPECT_GT(
      Run(request, "lvseq-gr").summary.spec_stats().mean_acceptance_length(),
      walk);
}

TEST_F(FlowRuleTest, SeveralDraftersAreReadTogether) {
  const v1::GenerateRequest request = CharRequest(1.0f, 4);
  for (const char* rule :
       {"lvseq-gr", "lv-sps", "tv-rrs", "specinfer", "trv"}) {
    for (const char* drafter : {"exit", ""}) {
      const v1::SpecStats stats =
          Run(request, rule, drafter).summary.spec_stats();
      EXPECT_EQ(stats.rule(), rule) << drafter;
      EXPECT_GT(stats.mean_acceptance_length(), 1.1) << rule << drafter;
    }
  }
  EXPECT_THAT(cluster_->Metrics("verifier"),
              HasSubstr("espalier_verifier_rule_expected_tokens_total{"
                        "rule=\"lv-gr\"}"));
}

TEST_F(FlowRuleTest, TheWalkStandsInWhereDistributionsDoNotHelp) {
  v1::GenerateRequest request = CharRequest(0.0f, 4);
  const Generated greedy = Run(request, "lvseq-gr");
  EXPECT_EQ(greedy.summary.spec_stats().rule(), "walk");
  EXPECT_EQ(greedy.token_ids, Run(Plain(request), "walk").token_ids);
  EXPECT_THAT(cluster_->Metrics("verifier"),
              HasSubstr("espalier_verifier_rule_fallbacks_total{"
                        "reason=\"greedy\",rule=\"lvseq-gr\"}"));
}

TEST_F(FlowRuleTest, AnUnknownRuleIsRefusedWithTheKnownOnes) {
  v1::GenerateRequest request = CharRequest(1.0f, 4);
  request.mutable_speculation()->set_rule("best");
  const Generated out = Generate(cluster_->stub(), request);
  EXPECT_EQ(out.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(out.status.error_message(), HasSubstr("lvseq-gr"));
}

// G statistic of two samples in buckets, over its degrees of freedom.
double TwoSampleG(const std::vector<double>& a, const std::vector<double>& b) {
  double g = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double mean = (a[i] + b[i]) / 2;
    if (a[i] > 0) g += 2 * a[i] * std::log(a[i] / mean);
    if (b[i] > 0) g += 2 * b[i] * std::log(b[i] / mean);
  }
  return g / static_cast<double>(a.size() - 1);
}

TEST_F(FlowRuleTest, TextsAreDistributedAsWithoutSpeculation) {
  constexpr int kTexts = 600;
  constexpr size_t kBuckets = 8;
  std::vector<double> plain(kBuckets), drafted(kBuckets), merged(kBuckets);
  const auto bucket = [](const Generated& out) {
    uint64_t hash = 1469598103934665603u;
    for (uint32_t token : out.token_ids) hash = (hash ^ token) * 1099511628211u;
    return hash >> 61;
  };
  for (uint64_t seed = 1; seed <= kTexts; ++seed) {
    const v1::GenerateRequest request = CharRequest(1.0f, seed, 4);
    ++plain[bucket(Run(Plain(request), "walk"))];
    ++drafted[bucket(Run(CharRequest(1.0f, seed + kTexts, 4), "lvseq-gr"))];
    ++merged[bucket(
        Run(CharRequest(1.0f, seed + 2 * kTexts, 4), "lvseq-gr", ""))];
  }
  // Seeds are fixed. For 7 degrees of freedom P(G / 7 > 5.5) is 1e-6.
  EXPECT_LT(TwoSampleG(plain, drafted), 5.5);
  EXPECT_LT(TwoSampleG(plain, merged), 5.5);
}

}  // namespace
}  // namespace espalier::testing
