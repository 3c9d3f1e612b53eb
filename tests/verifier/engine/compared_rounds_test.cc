// Comparing rules while requests run.
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier::compared_rounds_test {
namespace {

using Counts = std::map<std::string, double>;  // by rule

Counts CountsOf(const prometheus::Registry& metrics, const std::string& name) {
  Counts counts;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      counts[metric.label[0].value] = metric.counter.value;
    }
  }
  return counts;
}

Counts Rounds(const EngineHarness& harness) {
  return CountsOf(harness.metrics,
                  "espalier_verifier_rule_compared_rounds_total");
}
Counts Tokens(const EngineHarness& harness) {
  return CountsOf(harness.metrics,
                  "espalier_verifier_rule_expected_tokens_total");
}

// Two draws of two tokens each.
TokenTree SampledTree(TokenId root) {
  TokenTree tree = TokenTree::RootOnly(root);
  tree.Add(0, 4, -0.7f);
  tree.Add(0, 9, -0.7f);
  tree.Add(1, 9, -1.4f);
  tree.distributions.Add({4, 9},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.distributions.Add({9, 11},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2, .distribution = 0},
                  {.node = 3, .distribution = 1}};
  return tree;
}

// Returns the text of some rounds by a rule.
Text TextOf(EngineHarness& harness, const std::string& rule, float temperature,
            bool with_distributions = true) {
  Client client = {.id = {1, 1},
                   .text = {3, 1, 4},
                   .sampling = {.temperature = temperature, .seed = 5}};
  for (int i = 0; i < 8; ++i) {
    TokenTree tree = SampledTree(client.text.back());
    if (!with_distributions) tree.DropDistributions();
    VerifyRequest request = client.Request(std::move(tree));
    request.rule = rule;
    const auto verify_result = harness.Ask(std::move(request));
    EXPECT_TRUE(verify_result.ok()) << verify_result.status();
    client.Commit(*verify_result);
  }
  return client.text;
}

TEST(ComparedRounds, ChangeNoTextAndCountEveryRule) {
  for (const char* rule : {"walk", "lvseq-gr", "tv-rrs"}) {
    EngineHarness silent;
    EngineHarness harness({}, {.compared_rounds = 1});
    EXPECT_EQ(TextOf(harness, rule, 1), TextOf(silent, rule, 1));
    EXPECT_TRUE(Rounds(silent).empty());
    for (const char* compared : {"walk", "lvseq-gr", "tv-rrs", "trv"}) {
      EXPECT_EQ(Rounds(harness)[compared], 8) << compared;
      EXPECT_GT(Tokens(harness)[compared], 0) << compared;
      EXPECT_LE(Tokens(harness)[compared], 16) << compared;
    }
  }
}

TEST(ComparedRounds, ReadWhatWasGathered) {
  for (const auto& [rule, gathers] :
       {std::pair("walk", false), std::pair("lvseq-gr", true)}) {
    const bool is_gathered = gathers;
    EngineHarness harness({}, {.compared_rounds = 1});
    int trees = 0;
    harness.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
      for (const SequenceRows& rows : batch) {
        if (rows.num_logit_rows == 0) continue;
        ++trees;
        EXPECT_EQ(std::holds_alternative<GatherRequest>(rows.use), is_gathered);
        EXPECT_EQ(std::holds_alternative<AnyUse>(rows.use), !is_gathered);
      }
      return absl::OkStatus();
    });
    TextOf(harness, rule, 1);
    EXPECT_EQ(trees, 8);
  }
}

TEST(ComparedRounds, AreAShareOfThoseWithDraws) {
  EngineHarness harness({}, {.compared_rounds = 0.25});
  TextOf(harness, "walk", 1);
  EXPECT_EQ(Rounds(harness)["lvseq-gr"], 2);
  EngineHarness others({}, {.compared_rounds = 1});
  TextOf(others, "walk", 0);
  EXPECT_TRUE(Rounds(others).empty());
  EngineHarness chosen({}, {.compared_rounds = 1});
  TextOf(chosen, "walk", 1, /*with_distributions=*/false);
  EXPECT_TRUE(Rounds(chosen).empty());
}

}  // namespace
}  // namespace espalier::verifier::compared_rounds_test
