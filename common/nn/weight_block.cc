#include "common/nn/weight_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/bf16.h"

namespace espalier::nn {
namespace {

constexpr int64_t kHalf = kBlockInputs / 2;
constexpr int64_t kQuadBytes = 4;
constexpr int64_t kCodeRow = kPanelOutputs * kQuadBytes;

int Middle(const BlockFormat& format) {
  return format.minimums ? 0 : 1 << (format.bits - 1);
}

// As float16 or, if wide, float32.
float Rounded(float scale, const BlockFormat& format) {
  return format.wide_scales ? scale : F16ToFloat(FloatToF16(scale));
}

// The smallest scale that has `most` within `codes` steps.
float ScaleFor(float most, float codes, const BlockFormat& format) {
  float scale = Rounded(most / codes, format);
  if (!format.wide_scales && scale * codes < most) {
    scale = F16ToFloat(FloatToF16(scale) + 1);
  }
  return scale;
}

uint8_t CodeOf(float steps, int low, int high, int middle) {
  const int code = static_cast<int>(std::lrint(steps));
  return static_cast<uint8_t>(std::clamp(code, low, high) + middle);
}

// Where the code of an input lies, and by how much it is shifted there.
struct CodePlace {
  int64_t byte = 0;
  int shift = 0;
};
CodePlace PlaceOf(const BlockFormat& format, int64_t lane, int64_t input) {
  const int64_t quad = input / kQuadBytes;
  const int64_t in_row = lane * kQuadBytes + input % kQuadBytes;
  if (format.bits == 8) return {quad * kCodeRow + in_row};
  return {quad / 2 * kCodeRow + in_row, static_cast<int>(quad % 2) * 4};
}

void StoreScale(float scale, const BlockFormat& format, int64_t at,
                std::byte* scales) {
  if (format.wide_scales) {
    std::memcpy(scales + at * 4, &scale, 4);
  } else {
    const uint16_t bits = FloatToF16(scale);
    std::memcpy(scales + at * 2, &bits, 2);
  }
}

float LoadScale(const std::byte* scales, const BlockFormat& format,
                int64_t at) {
  if (format.wide_scales) {
    float scale;
    std::memcpy(&scale, scales + at * 4, 4);
    return scale;
  }
  uint16_t bits;
  std::memcpy(&bits, scales + at * 2, 2);
  return F16ToFloat(bits);
}

// Four codes at a time: where PlaceOf says.
void StoreCodes(const WeightBlock& block, const BlockFormat& format,
                int64_t lane, std::byte* panel_block) {
  const int64_t quads_per_row = 8 / format.bits;
  for (int64_t quad = 0; quad < kBlockInputs / kQuadBytes;
       quad += quads_per_row) {
    uint32_t codes;
    std::memcpy(&codes, &block.codes[quad * kQuadBytes], sizeof(codes));
    if (format.bits == 4) {
      uint32_t high;
      std::memcpy(&high, &block.codes[(quad + 1) * kQuadBytes], sizeof(high));
      codes |= high << 4;  // codes below 16 stay within their bytes
    }
    std::memcpy(panel_block + PlaceOf(format, lane, quad * kQuadBytes).byte,
                &codes, sizeof(codes));
  }
}

}  // namespace

BlockFormat CommonFormat(const BlockFormat& a, const BlockFormat& b) {
  return {.bits = std::max(a.bits, b.bits),
          .minimums = a.minimums || b.minimums,
          .wide_scales = a.wide_scales || b.wide_scales,
          .group = std::min(a.group, b.group)};
}

WeightBlock Widen(const WeightBlock& block, const BlockFormat& from,
                  const BlockFormat& to) {
  constexpr int kSevenBits = 64;  // middle of the codes up to 127
  const bool gains_minimums = to.minimums && !from.minimums;
  const int middle = !gains_minimums ? Middle(to)
                     : to.bits == 4  ? 8
                                     : kSevenBits;
  WeightBlock wide = block;
  for (uint8_t& code : wide.codes) {
    const int value = code - Middle(from) + middle;
    if (gains_minimums && (value < 0 || value >= 2 * middle)) {
      float weights[kBlockInputs];
      Dequantize(block, from, weights);
      return Quantize(weights, to);
    }
    code = static_cast<uint8_t>(value);
  }
  if (gains_minimums) {
    for (int half = 0; half < 2; ++half) {
      wide.minimums[half] = -static_cast<float>(middle) * block.scales[half];
    }
  }
  return wide;
}

void Dequantize(const WeightBlock& block, const BlockFormat& format,
                float* out) {
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    const int code = block.codes[i] - Middle(format);
    out[i] = block.scales[i / kHalf] * static_cast<float>(code) +
             block.minimums[i / kHalf];
  }
}

WeightBlock Quantize(const float* weights, const BlockFormat& format) {
  const auto [low, high] = std::minmax_element(weights, weights + kBlockInputs);
  const int middle = Middle(format);
  const int largest = !format.minimums   ? middle - 1
                      : format.bits == 4 ? 15
                                         : 127;
  const float minimum = format.minimums ? Rounded(*low, format) : 0;
  const float most = format.minimums
                         ? *high - minimum
                         : std::max(std::abs(*low), std::abs(*high));
  const float scale = ScaleFor(most, static_cast<float>(largest), format);
  WeightBlock block;
  std::fill_n(block.scales, 2, scale);
  std::fill_n(block.minimums, 2, minimum);
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    const float steps = scale > 0 ? (weights[i] - minimum) / scale : 0;
    if (!std::isfinite(weights[i])) std::fill_n(block.scales, 2, NAN);
    block.codes[i] = CodeOf(std::isfinite(steps) ? steps : 0,
                            format.minimums ? 0 : -largest, largest, middle);
  }
  return block;
}

void StoreBlock(const WeightBlock& block, const BlockFormat& format,
                int64_t lane, std::byte* panel_block) {
  StoreCodes(block, format, lane, panel_block);
  std::byte* const scales = panel_block + CodeBytes(format);
  for (int64_t i = 0; i < kBlockInputs / format.group; ++i) {
    const int64_t at = i * kPanelOutputs + lane;
    StoreScale(block.scales[i], format, at, scales);
    if (!format.minimums) continue;
    StoreScale(block.minimums[i], format, at, scales + ScaleBytes(format));
  }
}

WeightBlock LoadBlock(const std::byte* panel_block, const BlockFormat& format,
                      int64_t lane) {
  WeightBlock block;
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    const CodePlace place = PlaceOf(format, lane, i);
    const int byte = std::to_integer<int>(panel_block[place.byte]);
    block.codes[i] = static_cast<uint8_t>(
        format.bits == 8 ? byte : byte >> place.shift & 15);
  }
  const std::byte* const scales = panel_block + CodeBytes(format);
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t at = half * kHalf / format.group * kPanelOutputs + lane;
    block.scales[half] = LoadScale(scales, format, at);
    if (!format.minimums) continue;
    block.minimums[half] = LoadScale(scales + ScaleBytes(format), format, at);
  }
  return block;
}

}  // namespace espalier::nn
