// Texts that rules emit with the production sampler, round after round with one
// seed as in the service, against the exact distribution (G-tests; seeds
// fixed).

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/verifier/chi_square.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr int64_t kVocab = 3;
constexpr int64_t kLength = 3;
constexpr int kTexts = ESPALIER_SAMPLED_TEXTS;
constexpr double kSignificance = 1e-6;

// A model after some tokens.
class Continued final : public SequenceModel {
 public:
  Continued(const SequenceModel& model, const Tokens& before)
      : model_(model), text_(before), length_(before.size()) {}
  int64_t vocab() const override { return model_.vocab(); }
  absl::Span<const double> Distribution(
      absl::Span<const TokenId> context) const override {
    text_.resize(length_);
    text_.insert(text_.end(), context.begin(), context.end());
    return model_.Distribution(text_);
  }

 private:
  const SequenceModel& model_;
  mutable Tokens text_;
  const size_t length_;
};

class FlowSampled : public ::testing::TestWithParam<std::string> {
 protected:
  // The drafter's noise is independent of the seed.
  TokenTree Draft(const Tokens& text) {
    const Continued drafter(drafter_, text);
    const auto left = kLength - static_cast<int64_t>(text.size());
    return DraftTree(AllSampled(MultiChain(2, left - 1)), {{&drafter}},
                     [this](absl::Span<const double> distribution) {
                       return std::discrete_distribution<int64_t>(
                           distribution.begin(), distribution.end())(noise_);
                     });
  }

  Tokens Decode(VerificationRule& rule, uint64_t seed) {
    Tokens text;
    while (static_cast<int64_t>(text.size()) < kLength) {
      const TokenTree tree = Draft(text);
      ModelDistributions distributions(target_, text, tree);
      GumbelSampler sampler(seed);
      VerificationRule& used =
          rule.UnsupportedReason(tree).empty() ? rule : *walk_;
      const auto accepted = used.Accept(
          tree, /*first_position=*/1 + static_cast<int64_t>(text.size()),
          distributions, sampler);
      for (int32_t node : accepted->path) text.push_back(tree.tokens[node]);
      text.push_back(accepted->bonus_token);
    }
    return text;
  }

  std::mt19937_64 random_{5};
  const TableModel target_ = RandomModel(kVocab, kLength, 0, random_);
  const TableModel drafter_ = RandomModel(kVocab, kLength, 0, random_);
  std::mt19937_64 noise_{77};
  const std::unique_ptr<VerificationRule> walk_ = NewWalkRule();
};

TEST_P(FlowSampled, TextsFollowTheTargetsDistribution) {
  const auto rule = MakeRule(GetParam());
  const std::vector<double> distribution = JointDistribution(target_, kLength);
  std::vector<int64_t> counts(distribution.size());
  for (uint64_t seed = 0; seed < kTexts; ++seed) {
    ++counts[SequenceIndex(kVocab, Decode(*rule, seed * 0x9e3779b97f4a7c15))];
  }
  EXPECT_GT(GTestPValue(counts, distribution), kSignificance);
}

INSTANTIATE_TEST_SUITE_P(Rules, FlowSampled, ::testing::ValuesIn(AllRules()),
                         [](const auto& named) {
                           return TestName(named.param);
                         });

}  // namespace
}  // namespace espalier::verifier
