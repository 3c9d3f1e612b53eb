#ifndef ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_
#define ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// Draws of one token from a distribution p, independent unless the step says
// otherwise, and the target mass available. p and target are over the same
// tokens; all other tokens have no draft mass.
struct StepInput {
  absl::Span<const double> distribution;  // [n] p > 0, sum 1
  absl::Span<const double> target;        // [n] mass by token, sum <= 1
  absl::Span<const int32_t> draws;        // [k] entries of p, k >= 1
};

// Accepts at most one draw.
struct StepPlan {
  std::vector<double> accept;  // [k] probability of each draw, sum <= 1
  // [n] mass that each token receives: the expectation over draws of the
  // acceptance of the draws with that token. Never above the target's.
  std::vector<double> flow;

  void Clear(const StepInput& input) {
    accept.assign(input.draws.size(), 0);
    flow.assign(input.distribution.size(), 0);
  }
};

// A verifier of one token with one draft distribution: the flow of Sec. 3 in
// "Layer Verification Accelerates Speculative Tree Decoding". It is lossless if
// the flow does not exceed the target and is the exact expectation. Owns its
// buffers: not thread-safe; does not allocate once warm.
class SingleStep {
 public:
  virtual ~SingleStep() = default;
  virtual void Plan(const StepInput& input, StepPlan& plan) = 0;
};

// Speculative sampling: tests the first draw, ignores the others. Optimal for
// one draw. Leviathan, Kalman, Matias 2023.
std::unique_ptr<SingleStep> NewSpsStep();

// k-sequential selection: tests the draws in turn against one common share of
// the target. Sun et al., "SpecTr", 2023.
std::unique_ptr<SingleStep> NewKseqStep();

// Recursive rejection sampling: tests each draw against the residual that the
// draws before it leave. Jeon et al. 2024, Yang et al. 2025; Miao et al. 2024
// ("SpecInfer").
std::unique_ptr<SingleStep> NewRrsStep();

// Optimal transport from independent draws to the target, in closed form: the
// rule that Global Resolution (Thomas, Pal, arXiv 2511.15898) approaches.
std::unique_ptr<SingleStep> NewGrStep();

// Makes a step for draws without replacement: recursive rejection sampling,
// where each draw is from the distribution without the tokens sampled before
// it. The flow is a sum over all possible draws, so only the first few of many
// draws are tested. Jeon et al. 2024 ("RSD"), Chen et al. 2024 ("Sequoia").
std::unique_ptr<SingleStep> NewDistinctStep();

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_
