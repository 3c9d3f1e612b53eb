#ifndef ESPALIER_COMMON_BASE_BF16_H_
#define ESPALIER_COMMON_BASE_BF16_H_

#include <bit>
#include <cstdint>

namespace espalier {

// bfloat16 is the upper half of a float32.
inline float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Rounds to nearest, ties to even. A NaN stays one.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// IEEE half precision, exact.
inline float F16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Rounds to nearest, ties to even. A NaN stays one.
inline uint16_t FloatToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFF;
  const uint16_t sign = (bits >> 16) & 0x8000;
  if (size > 0x7F800000) return sign | 0x7E00;
  if (size >= 0x477FF000) return sign | 0x7C00;  // 65520 and above
  if (size < 0x38800000) {  // below 2^-14: a multiple of 2^-24
    // The sum has no room for less.
    const float sum = std::bit_cast<float>(size) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000);
  }
  const uint32_t even = (size >> 13) & 1;
  return sign | ((size - 0x38000000 + 0xFFF + even) >> 13);
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_BF16_H_
