#ifndef ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_
#define ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_

namespace espalier::verifier {

// Probability mass that sums of doubles cannot tell from none. What is left at
// this size is not offered to anybody, which is lossless.
inline constexpr double kNegligible = 1e-14;

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_NEGLIGIBLE_H_
