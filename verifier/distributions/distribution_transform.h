#ifndef ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_TRANSFORM_H_
#define ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_TRANSFORM_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/sampling_params.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// Turns the target's logits into its distribution under the request's
// parameters, in vLLM's order: the request's grammar and other adjustments of
// logits (LogitAdjustments), temperature, min-p, top-k, top-p; then typical-p.
// Each filter sees the tokens that those before it have kept. Owns the buffers
// that the distributions point into, so a row costs no allocation. Not
// thread-safe.
class DistributionTransform {
 public:
  // `logits`: [vocab_size]. The distribution is valid until the next Apply.
  // INTERNAL: a logit is NaN or infinite. REQUIRES: `sampling` is valid.
  absl::StatusOr<TargetDistribution> Apply(absl::Span<const float> logits,
                                           const SamplingParams& sampling);

  // `adjust` changes a copy of the logits first. It may set some, but not all,
  // to -inf.
  using Adjust = absl::FunctionRef<void(absl::Span<float>)>;
  absl::StatusOr<TargetDistribution> Apply(absl::Span<const float> logits,
                                           const SamplingParams& sampling,
                                           Adjust adjust);

 private:
  TargetDistribution Filtered(absl::Span<const float> logits,
                              const SamplingParams& sampling);
  TargetDistribution Greedy(absl::Span<const float> logits);
  void Scale(absl::Span<const float> logits, float temperature);
  void KeepMinP(float min_p);
  void KeepTopK(size_t k);
  void KeepNucleus(float top_p);
  void KeepTypical(float typical_p);
  void Keep(absl::Span<const int32_t> indices);

  bool all_tokens_ = true;       // tokens_ would be 0 .. vocab_size - 1
  std::vector<TokenId> tokens_;  // [n] ascending
  std::vector<float> weights_;   // [n] log-weights, the largest is 0
  std::vector<float> adjusted_;  // scratch
  std::vector<float> ranked_;    // scratch
  std::vector<int32_t> heap_;    // scratch
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_TRANSFORM_H_
