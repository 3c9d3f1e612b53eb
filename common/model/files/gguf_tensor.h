#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_TENSOR_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/gguf_cursor.h"

namespace espalier {

// The numbers are those of the file.
enum class GgufTensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

const char* GgufTensorTypeName(GgufTensorType type);  // "Q4_K"
int64_t GgufBlockValues(GgufTensorType type);         // values in a block
int64_t GgufBlockBytes(GgufTensorType type);          // bytes of a block

// One tensor in a mapped file. Its rows lie one after another, each a whole
// number of blocks.
struct GgufTensor {
  GgufTensorType type = GgufTensorType::kF32;
  std::vector<int64_t> dims;         // 0 to 4; dims[0] is the length of a row
  uint64_t offset = 0;               // bytes from the start of the tensor data
  absl::Span<const std::byte> data;  // its size follows from type and dims
};

using GgufTensors = std::map<std::string_view, GgufTensor>;

// Reads the directory of `count` tensors and finds their data, which follow it
// in `file` at a multiple of `alignment`. Checks every type, size and offset,
// that names do not repeat, and that tensors do not overlap.
absl::StatusOr<GgufTensors> ReadGgufTensors(GgufCursor& cursor, uint64_t count,
                                            uint32_t alignment,
                                            absl::Span<const std::byte> file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_TENSOR_H_
