#include "lab/toy.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "lab/exact_distribution.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_duplicates.h"
#include "verifier/flow/tree_verifiers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

std::vector<double> Softmax(std::vector<double> logits, double temperature) {
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit / temperature);
  for (double& probability : logits) probability /= sum;
  return logits;
}

// Draws from weights; for drafts, and for the rules' own draws before stops are
// computed.
class RandomSampler final : public TokenSampler {
 public:
  explicit RandomSampler(uint64_t seed) : random_(seed) {}
  TokenId SampleToken(int64_t,
                      const TargetDistribution& distribution) override {
    return distribution.token(SampleIndex(0, Probabilities(distribution)));
  }
  int64_t SampleIndex(int64_t, absl::Span<const double> weights) override {
    return std::discrete_distribution<int64_t>(weights.begin(),
                                               weights.end())(random_);
  }
  TokenId SampleOutside(int64_t round,
                        const TargetDistribution& distribution) override {
    return SampleToken(round, distribution);
  }

 private:
  std::mt19937_64 random_;
};

// Expected accepted tokens of a rule, given a tree.
class Length {
 public:
  explicit Length(std::unique_ptr<TreeVerifier> verifier)
      : verifier_(std::move(verifier)) {}

  absl::StatusOr<double> Of(const TokenTree& drafted,
                            const SequenceModel& target) {
    const TokenTree tree = verifier_->merges_duplicates()
                               ? MergeDuplicates(drafted).tree
                               : drafted;
    flow_tree_.Build(tree);
    if (!verifier_->Handles(flow_tree_)) {
      return absl::FailedPreconditionError("not a tree for this rule");
    }
    const Tokens committed;
    ModelDistributions distributions(target, committed, tree);
    RETURN_IF_ERROR(flow_tree_.GatherTarget(distributions));
    verifier_->Verify(flow_tree_, /*round=*/1, sampler_, stop_distribution_);
    return stop_distribution_.ExpectedAccepted(flow_tree_);
  }

 private:
  const std::unique_ptr<TreeVerifier> verifier_;
  RandomSampler sampler_{1};
  FlowTree flow_tree_;
  StopDistribution stop_distribution_;
};

absl::StatusOr<std::unique_ptr<Length>> LengthOf(const std::string& rule) {
  Registry<TreeVerifier> registry("rule");
  RegisterComparedVerifiers(registry);
  ASSIGN_OR_RETURN(auto verifier, registry.Create(rule));
  return std::make_unique<Length>(std::move(verifier));
}

// Mean over the drafts of a model.
absl::StatusOr<double> MeanLength(const ToyModels& models,
                                  const DraftScheme& scheme, uint64_t seed,
                                  int64_t trees, Length& length) {
  RandomSampler drafts(seed);
  double sum = 0;
  for (int64_t i = 0; i < trees; ++i) {
    const TokenTree tree =
        DraftTree(scheme, {&models.drafter()},
                  [&drafts](absl::Span<const double> distribution) {
                    return drafts.SampleIndex(0, distribution);
                  });
    ASSIGN_OR_RETURN(const double accepted, length.Of(tree, models.target()));
    sum += accepted;
  }
  return sum / static_cast<double>(trees);
}

}  // namespace

ToyModels::ToyModels(const ToyOptions& options, uint64_t seed)
    : options_(options), seed_(seed) {}

const ToyModels::Distributions& ToyModels::DistributionsAfter(
    absl::Span<const TokenId> context) {
  const auto [found, is_new] =
      distributions_.try_emplace(Tokens(context.begin(), context.end()));
  if (is_new) found->second = Make(context);
  return found->second;
}

ToyModels::Distributions ToyModels::Make(
    absl::Span<const TokenId> context) const {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed_),
                               static_cast<uint32_t>(seed_ >> 32)};
  key.insert(key.end(), context.begin(), context.end());
  std::seed_seq sequence(key.begin(), key.end());
  std::mt19937_64 random(sequence);
  std::normal_distribution<double> normal;
  std::vector<double> common(options_.vocab);
  for (double& u : common) u = normal(random);
  const auto distribution = [&] {
    std::vector<double> logits;
    for (double u : common) {
      logits.push_back(options_.rho * u + (1 - options_.rho) * normal(random));
    }
    return Softmax(std::move(logits), options_.tau);
  };
  Distributions distributions;
  distributions.target = distribution();
  distributions.drafter = distribution();
  return distributions;
}

absl::StatusOr<ToyResult> RunToy(const ToyOptions& options,
                                 const DraftScheme& scheme,
                                 const std::string& rule, int64_t seeds,
                                 int64_t trees) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Length> length, LengthOf(rule));
  double sum = 0, squares = 0;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    const ToyModels models(options, seed);
    ASSIGN_OR_RETURN(const double mean,
                     MeanLength(models, scheme, seed, trees, *length));
    sum += mean;
    squares += mean * mean;
  }
  const auto n = static_cast<double>(seeds);
  const double variance = std::max(0.0, squares / n - sum / n * (sum / n));
  return ToyResult{
      .accepted = sum / n,
      .std_error = seeds > 1 ? std::sqrt(variance / (n - 1)) : 0.0};
}

absl::StatusOr<double> ExactToyError(const ToyOptions& options,
                                     const DraftScheme& scheme,
                                     const std::string& rule) {
  Registry<VerificationRule> registry("rule");
  RegisterVerificationRules(registry);
  ASSIGN_OR_RETURN(const auto verify, registry.Create(rule));
  const ToyModels models(options, /*seed=*/0);
  const auto draft = [&](ChoiceTree& choices) {
    return DraftTree(scheme, {&models.drafter()},
                     [&](absl::Span<const double> distribution) {
                       return choices.Choose(distribution);
                     });
  };
  const ExactDistribution distribution =
      EnumerateDistribution(models.target(), options.depth + 1,
                            RuleRound(*verify, models.target(), draft));
  return MaxError(distribution.joint,
                  JointDistribution(models.target(), options.depth + 1));
}

}  // namespace espalier::verifier
