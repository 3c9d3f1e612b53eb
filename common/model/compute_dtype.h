#ifndef ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_
#define ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_

#include "common/nn/kv_type.h"

namespace espalier {

// The type of a model's matrix products. Sums, residual stream and logits are
// always float32.
enum class ComputeDType {
  // The reference. libtorch widens weights at load; the native backend keeps
  // bf16 weights, which is as exact.
  kFloat32,
  kBFloat16,  // weights and activations rounded to bf16
  // Native backend only: products of integers. Weights and activations are
  // rounded to 8 bits and a scale for every 32 of them.
  kInt8,
  // Like kInt8 with weights of 4 bits, a scale and a minimum. Those of the
  // token table and of the output layer stay at 8.
  kInt4,
  // CUDA backend only: as kBFloat16, but the weights of the layers' products
  // are rounded to e4m3 with a scale for each output. The token table and the
  // output layer stay bf16.
  kFp8,
};

inline constexpr ComputeDType kComputeDTypes[] = {
    ComputeDType::kFloat32, ComputeDType::kBFloat16, ComputeDType::kInt8,
    ComputeDType::kInt4, ComputeDType::kFp8};
// The types that the native backend has.
inline constexpr ComputeDType kNativeComputeDTypes[] = {
    ComputeDType::kFloat32, ComputeDType::kBFloat16, ComputeDType::kInt8,
    ComputeDType::kInt4};
// The types that the CUDA backend has.
inline constexpr ComputeDType kGpuComputeDTypes[] = {ComputeDType::kBFloat16,
                                                     ComputeDType::kFp8};

inline const char* NameOf(ComputeDType dtype) {
  switch (dtype) {
    case ComputeDType::kFloat32:
      return "float32";
    case ComputeDType::kBFloat16:
      return "bfloat16";
    case ComputeDType::kInt8:
      return "int8";
    case ComputeDType::kInt4:
      return "int4";
    case ComputeDType::kFp8:
      return "fp8";
  }
  return "";
}

// Returns what keys and values are rounded to, unless the options say.
inline nn::KvType DefaultKvType(ComputeDType dtype) {
  return dtype == ComputeDType::kFloat32 ? nn::KvType::kFloat32
                                         : nn::KvType::kBf16;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_COMPUTE_DTYPE_H_
