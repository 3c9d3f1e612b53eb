#include "common/model/native/weight_memory.h"

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

// Returns the bits of a weight. Integer types may take 4 for every weight, as a
// file's blocks have them.
int64_t LeastBits(DType format, ComputeDType dtype) {
  switch (dtype) {
    case ComputeDType::kInt8:
    case ComputeDType::kFp8: {
      const bool four = format == DType::kQ4_0 || format == DType::kQ4_1 ||
                        format == DType::kQ4_K;
      return four ? 4 : 8;
    }
    case ComputeDType::kInt4:
      return 4;
    case ComputeDType::kBFloat16:
      return 16;
    case ComputeDType::kFloat32:
      break;
  }
  return format == DType::kBF16 || format == DType::kRandom ? 16 : 32;
}

}  // namespace

int64_t LeastWeightBytes(const std::map<std::string, TensorView>& tensors,
                         ComputeDType dtype) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2) continue;
    bytes +=
        tensor.shape[0] * tensor.shape[1] * LeastBits(tensor.dtype, dtype) / 8;
  }
  return bytes;
}

absl::Status CheckWeightsFit(const std::map<std::string, TensorView>& tensors,
                             ComputeDType dtype, int64_t available) {
  const int64_t bytes = LeastWeightBytes(tensors, dtype);
  if (available == 0 || bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the weights take at least ", bytes >> 20, " MiB in ", NameOf(dtype),
      ", of memory there are ", available >> 20, " MiB left"));
}

}  // namespace espalier
