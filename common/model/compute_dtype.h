#ifndef ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_
#define ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_

namespace espalier {

// In what a model's products are computed. Sums, residual and logits are
// float32 always.
enum class ComputeDType {
  // The reference. libtorch widens weights at load; the native backend leaves
  // bf16 weights as they are, which is as exact.
  kFloat32,
  kBFloat16,  // weights and activations rounded to bf16
  // Weights rounded to 8 bits and a scale for each output, activations as for
  // kFloat32: half the memory to read. Native backend only.
  kInt8,
};

inline const char* NameOf(ComputeDType dtype) {
  switch (dtype) {
    case ComputeDType::kFloat32:
      return "float32";
    case ComputeDType::kBFloat16:
      return "bfloat16";
    case ComputeDType::kInt8:
      return "int8";
  }
  return "";
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_
