#ifndef ESPALIER_COMMON_BASE_E4M3_H_
#define ESPALIER_COMMON_BASE_E4M3_H_

#include <bit>
#include <cstdint>

namespace espalier {

inline constexpr float kLargestE4m3 = 448;

// Returns the code of a number in the 8-bit type with 4 bits of exponent, of
// bias 7, and 3 of fraction, which has no infinity (E4M3 of arXiv 2209.05433).
// Rounds to nearest, ties to even; what is too large becomes 448. A NaN stays
// one.
inline uint8_t FloatToE4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFF;
  const uint32_t sign = bits >> 24 & 0x80;
  if (size > 0x7F800000) return static_cast<uint8_t>(sign | 0x7F);
  if (size >= std::bit_cast<uint32_t>(kLargestE4m3)) {
    return static_cast<uint8_t>(sign | 0x7E);
  }
  if (size < std::bit_cast<uint32_t>(0x1p-6f)) {  // a multiple of 2^-9
    // The sum has no room for less.
    const float sum = std::bit_cast<float>(size) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(sum) -
                                        std::bit_cast<uint32_t>(0x1p14f)));
  }
  const uint32_t even = size >> 20 & 1;
  return static_cast<uint8_t>(
      sign | (size - (uint32_t{120} << 23) + 0x7FFFF + even) >> 20);
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_E4M3_H_
