#ifndef ESPALIER_COMMON_MODEL_FILES_TENSOR_VIEW_H_
#define ESPALIER_COMMON_MODEL_FILES_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// Elements of safetensors files, then blocks of GGUF files: several weights
// that share a scale; and weights of no file.
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kRandom,
};

const char* DTypeName(DType dtype);  // as in the files: "BF16", "Q4_K"

// One tensor in a mapped file: row-major, little-endian, not aligned. A row is
// a whole number of blocks. kRandom: in no file (nn::RandomBlock).
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};
  // Its size follows from shape and dtype.
  absl::Span<const std::byte> data = {};
  uint64_t seed = 0;  // of kRandom, which has no data
  // Above 0: so many heads, whose rows (or elements, of a vector) the file has
  // in the order 0, d/2, 1, d/2 + 1, ... of the d of a head: GGUF's order of
  // Llama's queries and keys.
  int64_t interleaved_heads = 0;
  // Added to every value: 1 for norms that a file stores less one.
  float offset = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_TENSOR_VIEW_H_
