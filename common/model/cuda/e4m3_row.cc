#include "common/model/cuda/e4m3_row.h"

#include <algorithm>
#include <limits>

#include "common/base/bf16.h"
#include "common/base/e4m3.h"

namespace espalier {

float RoundToE4m3(absl::Span<const uint16_t> row, absl::Span<uint8_t> codes) {
  constexpr uint16_t kInfinity = 0x7F80;
  uint16_t largest = 0;  // as bits, above which NaN is, too
  for (uint16_t bits : row) {
    largest = std::max<uint16_t>(largest, bits & 0x7FFF);
  }
  if (largest >= kInfinity) {
    std::fill(codes.begin(), codes.end(), uint8_t{0});
    return std::numeric_limits<float>::quiet_NaN();
  }
  // The scale is above 0 for a row of zeros, too, as it is a divisor.
  const float scale = std::max(Bf16ToFloat(largest) / kLargestE4m3,
                               std::numeric_limits<float>::min());
  std::transform(row.begin(), row.end(), codes.begin(), [scale](uint16_t bits) {
    return FloatToE4m3(Bf16ToFloat(bits) / scale);
  });
  return scale;
}

}  // namespace espalier
