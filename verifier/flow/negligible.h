#ifndef ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_
#define ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_

namespace espalier::verifier {

// Probability mass below the precision of sums of doubles. Remaining mass of
// this size is not offered to any draw, which keeps rules lossless.
inline constexpr double kNegligible = 1e-14;

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_
