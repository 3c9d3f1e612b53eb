#include "common/spec/sampling_params.h"

#include "absl/strings/str_cat.h"
#include "common/spec/request_errors.h"

namespace espalier {

// Comparisons are written so that NaN fails them.
absl::Status ValidateSamplingParams(const SamplingParams& sampling) {
  const float temperature = sampling.temperature;
  if (temperature != 0 && !(temperature >= 0.01f && temperature <= 100)) {
    return FieldError("temperature", absl::StrCat(temperature,
                                                  " is neither 0 (greedy) nor "
                                                  "between 0.01 and 100"));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return FieldError(
        "top_p", absl::StrCat(sampling.top_p, " is not above 0 and at most 1"));
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) {
    return FieldError("min_p",
                      absl::StrCat(sampling.min_p, " is not between 0 and 1"));
  }
  if (!(sampling.typical_p > 0 && sampling.typical_p <= 1)) {
    return FieldError(
        "typical_p",
        absl::StrCat(sampling.typical_p, " is not above 0 and at most 1"));
  }
  if (sampling.top_k < 0) {
    return FieldError(
        "top_k",
        absl::StrCat(sampling.top_k, " is negative (0 keeps every token)"));
  }
  return absl::OkStatus();
}

}  // namespace espalier
