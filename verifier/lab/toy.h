// The toy experiment of "Layer Verification Accelerates Speculative Tree
// Decoding" (Sec. 5.1, App. G): random models, and what rules accept on them.
#ifndef ESPALIER_VERIFIER_LAB_TOY_H_
#define ESPALIER_VERIFIER_LAB_TOY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/lab/draft_scheme.h"
#include "verifier/lab/sequence_model.h"

namespace espalier::verifier {

struct ToyOptions {
  int64_t vocab = 15;
  int64_t depth = 4;
  int64_t branch = 2;
  double rho = 0.5;  // likeness of drafter and target, 0 .. 1
  double tau = 1;    // temperature of both
};

// A target and its drafter. For every context independent standard normals u,
// e, f; logits rho u + (1 - rho) e and rho u + (1 - rho) f. A law is made when
// it is asked for and kept: not thread-safe.
class ToyModels {
 public:
  ToyModels(const ToyOptions& options, uint64_t seed);
  ToyModels(const ToyModels&) = delete;
  ToyModels& operator=(const ToyModels&) = delete;

  const SequenceModel& target() const { return target_; }
  const SequenceModel& drafter() const { return drafter_; }

 private:
  struct Laws {
    std::vector<double> target, drafter;  // [vocab]
  };
  class Side final : public SequenceModel {
   public:
    Side(ToyModels& models, std::vector<double> Laws::*law)
        : models_(models), law_(law) {}
    int64_t vocab() const override { return models_.options_.vocab; }
    absl::Span<const double> Law(
        absl::Span<const TokenId> context) const override {
      return models_.LawsAfter(context).*law_;
    }

   private:
    ToyModels& models_;
    std::vector<double> Laws::*const law_;
  };

  const Laws& LawsAfter(absl::Span<const TokenId> context);
  Laws Make(absl::Span<const TokenId> context) const;

  const ToyOptions options_;
  const uint64_t seed_;
  std::map<Tokens, Laws> laws_;  // by context
  const Side target_{*this, &Laws::target};
  const Side drafter_{*this, &Laws::drafter};
};

// What a rule accepts of drafts of a scheme.
struct ToyResult {
  double accepted = 0;   // expected tokens, without the bonus token
  double std_error = 0;  // of that, over models
};

// Over `seeds` pairs of models, each with `trees` drafts; nothing is drawn but
// models and drafts, which are the same for all rules. INVALID_ARGUMENT:
// unknown rule. FAILED_PRECONDITION: not a rule for this scheme.
absl::StatusOr<ToyResult> RunToy(const ToyOptions& options,
                                 const DraftScheme& scheme,
                                 const std::string& rule, int64_t seeds,
                                 int64_t trees);

// The largest error of the rule's exact law, over all drafts, on the first pair
// of models. For schemes that can be enumerated. INVALID_ARGUMENT: unknown
// rule.
absl::StatusOr<double> ExactToyError(const ToyOptions& options,
                                     const DraftScheme& scheme,
                                     const std::string& rule);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_LAB_TOY_H_
