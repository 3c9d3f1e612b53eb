// Texts that rules emit with the production chooser, round after round with one
// seed as in the service, against the exact law (G-tests; seeds fixed).

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/verifier/chi_square.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"
#include "verifier/choosers.h"
#include "verifier/verification_rules.h"

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
  absl::Span<const double> Law(
      absl::Span<const TokenId> context) const override {
    text_.resize(length_);
    text_.insert(text_.end(), context.begin(), context.end());
    return model_.Law(text_);
  }

 private:
  const SequenceModel& model_;
  mutable Tokens text_;
  const size_t length_;
};

class FlowSampled : public ::testing::TestWithParam<std::string> {
 protected:
  // The drafter's noise has nothing to do with the seed.
  TokenTree Draft(const Tokens& text) {
    const Continued drafter(drafter_, text);
    const auto left = kLength - static_cast<int64_t>(text.size());
    return DraftTree(AllSampled(MultiChain(2, left - 1)), {{&drafter}},
                     [this](absl::Span<const double> law) {
                       return std::discrete_distribution<int64_t>(
                           law.begin(), law.end())(noise_);
                     });
  }

  Tokens Decode(VerificationRule& rule, uint64_t seed) {
    Tokens text;
    while (static_cast<int64_t>(text.size()) < kLength) {
      const TokenTree tree = Draft(text);
      ModelLaws laws(target_, text, tree);
      GumbelChooser chooser(seed);
      VerificationRule& used = rule.Refusal(tree).empty() ? rule : *walk_;
      const auto accepted = used.Accept(
          tree, /*first_position=*/1 + static_cast<int64_t>(text.size()), laws,
          chooser);
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

TEST_P(FlowSampled, TextsFollowTheTargetsLaw) {
  const auto rule = MakeRule(GetParam());
  const std::vector<double> law = JointLaw(target_, kLength);
  std::vector<int64_t> counts(law.size());
  for (uint64_t seed = 0; seed < kTexts; ++seed) {
    ++counts[SequenceIndex(kVocab, Decode(*rule, seed * 0x9e3779b97f4a7c15))];
  }
  EXPECT_GT(GTestPValue(counts, law), kSignificance);
}

INSTANTIATE_TEST_SUITE_P(Rules, FlowSampled, ::testing::ValuesIn(AllRules()),
                         [](const auto& named) {
                           return TestName(named.param);
                         });

}  // namespace
}  // namespace espalier::verifier
