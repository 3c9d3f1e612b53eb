// The toy experiment of "Layer Verification Accelerates Speculative Tree
// Decoding" (Sec. 5.1, App. G): random models, and the acceptance lengths of
// rules on them.
#ifndef ESPALIER_LAB_TOY_H_
#define ESPALIER_LAB_TOY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/draft_scheme.h"
#include "lab/sequence_model.h"

namespace espalier::verifier {

struct ToyOptions {
  int64_t vocab = 15;
  int64_t depth = 4;
  int64_t branch = 2;
  double rho = 0.5;  // similarity of drafter and target, 0 .. 1
  double tau = 1;    // temperature of both
};

// A target and its drafter. For every context u, e, f are independent standard
// normals; the logits are rho u + (1 - rho) e and rho u + (1 - rho) f.
// Distributions are computed on first use and kept: not thread-safe.
class ToyModels {
 public:
  ToyModels(const ToyOptions& options, uint64_t seed);
  ToyModels(const ToyModels&) = delete;
  ToyModels& operator=(const ToyModels&) = delete;

  const SequenceModel& target() const { return target_; }
  const SequenceModel& drafter() const { return drafter_; }

 private:
  struct Distributions {
    std::vector<double> target, drafter;  // [vocab]
  };
  class Side final : public SequenceModel {
   public:
    Side(ToyModels& models, std::vector<double> Distributions::*distribution)
        : models_(models), distribution_(distribution) {}
    int64_t vocab() const override { return models_.options_.vocab; }
    absl::Span<const double> Distribution(
        absl::Span<const TokenId> context) const override {
      return models_.DistributionsAfter(context).*distribution_;
    }

   private:
    ToyModels& models_;
    std::vector<double> Distributions::*const distribution_;
  };

  const Distributions& DistributionsAfter(absl::Span<const TokenId> context);
  Distributions Make(absl::Span<const TokenId> context) const;

  const ToyOptions options_;
  const uint64_t seed_;
  std::map<Tokens, Distributions> distributions_;  // by context
  const Side target_{*this, &Distributions::target};
  const Side drafter_{*this, &Distributions::drafter};
};

// The acceptance length of a rule on drafts of a scheme.
struct ToyResult {
  double accepted = 0;   // expected tokens, without the bonus token
  double std_error = 0;  // of that, over models
};

// Over `seeds` pairs of models, each with `trees` drafts; only models and
// drafts are sampled, and they are the same for all rules. INVALID_ARGUMENT:
// unknown rule. FAILED_PRECONDITION: the rule does not handle this scheme.
absl::StatusOr<ToyResult> RunToy(const ToyOptions& options,
                                 const DraftScheme& scheme,
                                 const std::string& rule, int64_t seeds,
                                 int64_t trees);

// The largest error of the rule's exact output distribution, over all drafts,
// on the first pair of models. Only for schemes small enough to enumerate.
// INVALID_ARGUMENT: unknown rule.
absl::StatusOr<double> ExactToyError(const ToyOptions& options,
                                     const DraftScheme& scheme,
                                     const std::string& rule);

}  // namespace espalier::verifier

#endif  // ESPALIER_LAB_TOY_H_
