#ifndef ESPALIER_COMMON_SPECULATION_NEAR_TIE_H_
#define ESPALIER_COMMON_SPECULATION_NEAR_TIE_H_

namespace espalier {

// Two scores (logits, or logits / temperature + noise) closer than this could
// come out in the other order when the same row is computed in a batch of
// another shape: float32 sums of a forward pass differ by about 1e-4.
inline constexpr double kNearTie = 1e-3;

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_NEAR_TIE_H_
