#ifndef ESPALIER_COMMON_SPECULATION_SAMPLING_PARAMS_H_
#define ESPALIER_COMMON_SPECULATION_SAMPLING_PARAMS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace espalier {

// How the target's logits become a distribution, and the seed of sampling.
// Drafters get the same parameters, so that they can predict the target's
// sample (coupled walk).
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy; else 0.01 .. 100
  int32_t top_k = 0;         // keep the k most likely tokens; 0: all
  float top_p = 1.0f;        // keep the nucleus of this mass, (0, 1]
  // Keep tokens whose probability is at least this share of the likeliest
  // token's, [0, 1]; 0: all.
  float min_p = 0.0f;
  // Keep the locally typical set of this mass (arXiv 2202.00666), (0, 1].
  float typical_p = 1.0f;
  uint64_t seed = 0;  // of the noise at every position

  bool greedy() const { return temperature == 0.0f; }
  friend bool operator==(const SamplingParams&,
                         const SamplingParams&) = default;
};

// Returns a FieldError (request_errors.h) that names the field and its limits.
absl::Status ValidateSamplingParams(const SamplingParams& sampling);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_SAMPLING_PARAMS_H_
