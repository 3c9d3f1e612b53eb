#include "verifier/lab/toy.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_twins.h"
#include "verifier/flow/tree_verifier.h"
#include "verifier/lab/exact_law.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

std::vector<double> Softmax(std::vector<double> logits, double temperature) {
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit / temperature);
  for (double& probability : logits) probability /= sum;
  return logits;
}

// Draws from weights; for drafts, and for what rules draw beforehand.
class RandomChooser final : public Chooser {
 public:
  explicit RandomChooser(uint64_t seed) : random_(seed) {}
  TokenId Draw(int64_t, const TargetLaw& law) override {
    return law.token(Choose(0, Probabilities(law)));
  }
  int64_t Choose(int64_t, absl::Span<const double> weights) override {
    return std::discrete_distribution<int64_t>(weights.begin(),
                                               weights.end())(random_);
  }
  TokenId DrawOutside(int64_t round, const TargetLaw& law) override {
    return Draw(round, law);
  }

 private:
  std::mt19937_64 random_;
};

// Expected accepted tokens of a rule, given a tree.
class Length {
 public:
  virtual ~Length() = default;
  virtual absl::StatusOr<double> Of(const TokenTree& tree,
                                    const SequenceModel& target) = 0;
};

class FlowLength final : public Length {
 public:
  explicit FlowLength(std::unique_ptr<TreeVerifier> verifier)
      : verifier_(std::move(verifier)) {}

  absl::StatusOr<double> Of(const TokenTree& drafted,
                            const SequenceModel& target) override {
    const TokenTree tree =
        verifier_->merges_twins() ? MergeTwins(drafted).tree : drafted;
    flow_tree_.Build(tree);
    if (!verifier_->Handles(flow_tree_)) {
      return absl::FailedPreconditionError("not a tree for this rule");
    }
    const Tokens committed;
    ModelLaws laws(target, committed, tree);
    RETURN_IF_ERROR(flow_tree_.GatherTarget(laws));
    verifier_->Verify(flow_tree_, /*round=*/1, chooser_, stop_law_);
    return stop_law_.ExpectedAccepted(flow_tree_);
  }

 private:
  const std::unique_ptr<TreeVerifier> verifier_;
  RandomChooser chooser_{1};
  FlowTree flow_tree_;
  StopLaw stop_law_;
};

// The sum over texts of the tree of the probability that the target says them.
class WalkLength final : public Length {
 public:
  absl::StatusOr<double> Of(const TokenTree& drafted,
                            const SequenceModel& target) override {
    const TokenTree tree = MergeTwins(drafted).tree;
    std::vector<double> reach = {1};
    for (int32_t node = 1; node < tree.num_nodes(); ++node) {
      const int32_t parent = tree.parents[node];
      reach.push_back(reach[parent] *
                      target.Law(TextOf(tree, parent))[tree.tokens[node]]);
    }
    return std::accumulate(reach.begin() + 1, reach.end(), 0.0);
  }
};

absl::StatusOr<std::unique_ptr<Length>> LengthOf(const std::string& rule) {
  if (rule == "walk") return std::make_unique<WalkLength>();
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  ASSIGN_OR_RETURN(auto verifier, registry.Create(rule));
  return std::make_unique<FlowLength>(std::move(verifier));
}

// Mean over a model's drafts.
absl::StatusOr<double> MeanLength(const ToyModels& models,
                                  const DraftScheme& scheme, uint64_t seed,
                                  int64_t trees, Length& length) {
  RandomChooser drafts(seed);
  double sum = 0;
  for (int64_t i = 0; i < trees; ++i) {
    const TokenTree tree = DraftTree(scheme, {{&models.drafter()}},
                                     [&drafts](absl::Span<const double> law) {
                                       return drafts.Choose(0, law);
                                     });
    ASSIGN_OR_RETURN(const double accepted, length.Of(tree, models.target()));
    sum += accepted;
  }
  return sum / static_cast<double>(trees);
}

}  // namespace

ToyModels::ToyModels(const ToyOptions& options, uint64_t seed)
    : options_(options), seed_(seed) {}

const ToyModels::Laws& ToyModels::LawsAfter(absl::Span<const TokenId> context) {
  const auto [found, is_new] =
      laws_.try_emplace(Tokens(context.begin(), context.end()));
  if (is_new) found->second = Make(context);
  return found->second;
}

ToyModels::Laws ToyModels::Make(absl::Span<const TokenId> context) const {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed_),
                               static_cast<uint32_t>(seed_ >> 32)};
  key.insert(key.end(), context.begin(), context.end());
  std::seed_seq sequence(key.begin(), key.end());
  std::mt19937_64 random(sequence);
  std::normal_distribution<double> normal;
  std::vector<double> common(options_.vocab);
  for (double& u : common) u = normal(random);
  const auto law = [&] {
    std::vector<double> logits;
    for (double u : common) {
      logits.push_back(options_.rho * u + (1 - options_.rho) * normal(random));
    }
    return Softmax(std::move(logits), options_.tau);
  };
  Laws laws;
  laws.target = law();
  laws.drafter = law();
  return laws;
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
    return DraftTree(
        scheme, {{&models.drafter()}},
        [&](absl::Span<const double> law) { return choices.Choose(law); });
  };
  const ExactLaw law = EnumerateLaw(models.target(), options.depth + 1,
                                    RuleRound(*verify, models.target(), draft));
  return MaxError(law.joint, JointLaw(models.target(), options.depth + 1));
}

}  // namespace espalier::verifier
