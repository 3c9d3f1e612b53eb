#include "common/spec/sampling_params.h"

#include "absl/strings/str_cat.h"

namespace espalier {

// Comparisons are written so that NaN fails them.
absl::Status ValidateSamplingParams(const SamplingParams& sampling) {
  const float temperature = sampling.temperature;
  if (temperature != 0 && !(temperature >= 0.01f && temperature <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature ", temperature,
                     " is neither 0 (greedy) nor between 0.01 and 100"));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_p ", sampling.top_p, " is not above 0 and at most 1"));
  }
  if (sampling.top_k < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_k ", sampling.top_k, " is negative (0 keeps every token)"));
  }
  return absl::OkStatus();
}

}  // namespace espalier
