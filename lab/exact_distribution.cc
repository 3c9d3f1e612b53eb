#include "lab/exact_distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "verifier/distributions/distribution_weights.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {

std::vector<double> Probabilities(const TargetDistribution& distribution) {
  const DistributionWeights weights(distribution);
  std::vector<double> probabilities;
  for (int64_t i = 0; i < weights.size(); ++i) {
    probabilities.push_back(weights.Probability(i));
  }
  return probabilities;
}

TokenId EnumeratingSampler::SampleToken(
    int64_t position, const TargetDistribution& distribution) {
  std::vector<double> probabilities = Probabilities(distribution);
  for (const Sampled& sampled : sampled_) {
    if (sampled.position == position && sampled.distribution == probabilities) {
      return sampled.token;
    }
  }
  const TokenId token = distribution.token(choices_.Choose(probabilities));
  sampled_.push_back({position, std::move(probabilities), token});
  return token;
}

int64_t EnumeratingSampler::SampleIndex(int64_t,
                                        absl::Span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  ESPALIER_CHECK(sum > 0);
  std::vector<double> probabilities(weights.begin(), weights.end());
  for (double& probability : probabilities) probability /= sum;
  return choices_.Choose(probabilities);
}

TokenId EnumeratingSampler::SampleOutside(
    int64_t, const TargetDistribution& distribution) {
  return distribution.token(choices_.Choose(Probabilities(distribution)));
}

ExactDistribution EnumerateDistribution(const SequenceModel& target,
                                        int64_t length, const Round& round) {
  ExactDistribution distribution;
  distribution.joint.assign(std::lround(std::pow(target.vocab(), length)), 0.0);
  ChoiceTree::ForEachOutcome([&](ChoiceTree& choices) {
    Tokens emitted = round(choices);
    ESPALIER_CHECK(!emitted.empty());
    distribution.expected_emitted += choices.weight() * emitted.size();
    SpreadOverContinuations(target, length, std::move(emitted),
                            choices.weight(), distribution.joint);
  });
  return distribution;
}

Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                Drafting draft) {
  return [&rule, &target, draft = std::move(draft)](ChoiceTree& choices) {
    const TokenTree tree = draft(choices);
    const Tokens committed;  // the model has no context before the root
    ModelDistributions distributions(target, committed, tree);
    EnumeratingSampler sampler(choices);
    const auto walk = NewWalkRule();
    VerificationRule& used =
        rule.UnsupportedReason(tree).empty() ? rule : *walk;
    const auto acceptance =
        used.Accept(tree, /*first_position=*/1, distributions, sampler);
    ESPALIER_CHECK(acceptance.ok());
    Tokens emitted;
    int32_t parent = 0;
    for (int32_t node : acceptance->path) {
      ESPALIER_CHECK(tree.parents[node] == parent);
      emitted.push_back(tree.tokens[node]);
      parent = node;
    }
    emitted.push_back(acceptance->bonus_token);
    return emitted;
  };
}

Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                const TokenTree& tree) {
  return RuleRound(rule, target, [tree](ChoiceTree&) { return tree; });
}

double MaxError(absl::Span<const double> a, absl::Span<const double> b) {
  ESPALIER_CHECK(a.size() == b.size());
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  return error;
}

}  // namespace espalier::verifier
