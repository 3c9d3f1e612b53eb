#ifndef ESPALIER_COMMON_MODEL_NATIVE_AUTO_COMPUTE_TYPE_H_
#define ESPALIER_COMMON_MODEL_NATIVE_AUTO_COMPUTE_TYPE_H_

#include <map>
#include <string>

#include "absl/types/span.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

// The quality of a compute type that `auto` accepts, beside float32 with the
// same file: the mean KL divergence of the next token's distribution in nats,
// and the share of positions with the same likeliest token. A user does not see
// the first; the second keeps greedy text mostly that of float32.
inline constexpr double kMaxAutoKl = 0.01;
inline constexpr double kMinAutoTop1 = 0.97;

// Holds what `espalier bench quality` measured, over
// tests/benchmark/quality.txt with a file of the default model whose matrices
// have this format.
struct MeasuredQuality {
  DType format;
  ComputeDType type;
  double kl = 0;
  double top1 = 0;
};
absl::Span<const MeasuredQuality> MeasuredQualities();

// Returns the fastest type that is within the limits for the formats of all
// matrices among these tensors (WeightFiles::tensors); bfloat16 where none is,
// or where a format was not measured.
ComputeDType AutoComputeType(const std::map<std::string, TensorView>& tensors);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_AUTO_COMPUTE_TYPE_H_
