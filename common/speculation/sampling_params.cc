#include "common/speculation/sampling_params.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

// Checks a probability mass. NaN fails the check.
absl::Status CheckMass(absl::string_view field, float mass) {
  if (mass > 0 && mass <= 1) return absl::OkStatus();
  return FieldError(field, absl::StrCat(mass, " is not above 0 and at most 1"));
}

}  // namespace

// Comparisons are written so that NaN fails them.
absl::Status ValidateSamplingParams(const SamplingParams& sampling) {
  const float temperature = sampling.temperature;
  if (temperature != 0 && !(temperature >= 0.01f && temperature <= 100)) {
    return FieldError("temperature", absl::StrCat(temperature,
                                                  " is neither 0 (greedy) nor "
                                                  "between 0.01 and 100"));
  }
  RETURN_IF_ERROR(CheckMass("top_p", sampling.top_p));
  RETURN_IF_ERROR(CheckRange("min_p", sampling.min_p, 0, 1));
  RETURN_IF_ERROR(CheckMass("typical_p", sampling.typical_p));
  if (sampling.top_k < 0) {
    return FieldError(
        "top_k",
        absl::StrCat(sampling.top_k, " is negative (0 keeps every token)"));
  }
  return absl::OkStatus();
}

}  // namespace espalier
