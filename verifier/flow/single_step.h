#ifndef ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_
#define ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// Draws of one token from a law p, independent ones if the step does not say
// otherwise, and what the target may take of it. p and target are over the same
// tokens; all others have no draft mass.
struct StepInput {
  absl::Span<const double> law;     // [n] p > 0, sum 1
  absl::Span<const double> target;  // [n] mass of each token, sum <= 1
  absl::Span<const int32_t> draws;  // [k] entries of p, k >= 1
};

// Which draw to accept, at most one.
struct StepPlan {
  std::vector<double> accept;  // [k] probability of each draw, sum <= 1
  // [n] mass that the token receives: the expectation over draws of the accept
  // of those that show it. Never above the target's.
  std::vector<double> flow;

  void Clear(const StepInput& input) {
    accept.assign(input.draws.size(), 0);
    flow.assign(input.law.size(), 0);
  }
};

// A verifier of one token with one law: the flow of Sec. 3 in "Layer
// Verification Accelerates Speculative Tree Decoding". That the flow fits the
// target and is the exact expectation is all that losslessness needs. Owns its
// buffers: not thread-safe, and does not allocate once warm.
class SingleStep {
 public:
  virtual ~SingleStep() = default;
  virtual void Plan(const StepInput& input, StepPlan& plan) = 0;
};

// Speculative sampling: tests the first draw, ignores the others. Optimal for
// one. Leviathan, Kalman, Matias 2023.
std::unique_ptr<SingleStep> NewSpsStep();

// k-sequential selection: tests the draws in turn against one common share of
// the target. Sun et al., "SpecTr", 2023.
std::unique_ptr<SingleStep> NewKseqStep();

// Recursive rejection sampling: tests each draw against what those before it
// have left. Jeon et al. 2024, Yang et al. 2025; Miao et al. 2024
// ("SpecInfer").
std::unique_ptr<SingleStep> NewRrsStep();

// Optimal transport from independent draws to the target, in closed form: the
// rule that Global Resolution (Thomas, Pal, arXiv 2511.15898) approaches.
std::unique_ptr<SingleStep> NewGrStep();

// For draws without replacement: recursive rejection sampling, each draw from
// what those before it have left of the law. The flow is summed over all that
// may have been drawn, so the last of many draws are not tested. Jeon et al.
// 2024 ("RSD"), Chen et al. 2024 ("Sequoia").
std::unique_ptr<SingleStep> NewDistinctStep();

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_SINGLE_STEP_H_
