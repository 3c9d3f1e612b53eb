#ifndef ESPALIER_COMMON_MODEL_CUDA_E4M3_ROW_H_
#define ESPALIER_COMMON_MODEL_CUDA_E4M3_ROW_H_

#include <cstdint>

#include "absl/types/span.h"

namespace espalier {

// Rounds bf16 numbers to e4m3 with one scale, which is returned: codes times it
// are near the row. It is NaN if a number of the row is not finite. REQUIRES:
// equal sizes.
float RoundToE4m3(absl::Span<const uint16_t> row, absl::Span<uint8_t> codes);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_E4M3_ROW_H_
