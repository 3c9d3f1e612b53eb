#include "common/nn/weight_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/bf16.h"
#include "common/base/check.h"

namespace espalier::nn {
namespace {

using Format = WeightSource::Format;

constexpr int64_t kSuperInputs = 256;  // of a K-quant's super-block
constexpr int64_t kSuperBlocks = kSuperInputs / kBlockInputs;

struct Layout {
  int64_t unit_inputs;
  int64_t unit_bytes;
  BlockFormat format;
};

Layout LayoutOf(Format format) {
  switch (format) {
    case Format::kBf16:
    case Format::kF16:
      return {1, 2, {}};
    case Format::kFloat32:
      return {1, 4, {}};
    case Format::kQ8_0:
      return {kBlockInputs, 34, {}};
    case Format::kQ4_0:
      return {kBlockInputs, 18, {.bits = 4}};
    case Format::kQ4_1:
      return {kBlockInputs, 20, {.bits = 4, .minimums = true}};
    case Format::kQ5_0:
      return {kBlockInputs, 22, {}};
    case Format::kQ5_1:
      return {kBlockInputs, 24, {.minimums = true}};
    case Format::kQ4K:
      return {kSuperInputs,
              144,
              {.bits = 4, .minimums = true, .wide_scales = true}};
    case Format::kQ5K:
      return {kSuperInputs, 176, {.minimums = true, .wide_scales = true}};
    case Format::kQ6K:
      return {kSuperInputs, 210, {.wide_scales = true, .group = 16}};
    case Format::kRandom:
      return {kBlockInputs, 0, {.bits = 4}};
  }
  ESPALIER_CHECK(false);
}

float LoadF16(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return F16ToFloat(bits);
}

uint8_t Byte(const std::byte* p) { return std::to_integer<uint8_t>(*p); }

void SetScale(float scale, float minimum, WeightBlock& block) {
  std::fill_n(block.scales, 2, scale);
  std::fill_n(block.minimums, 2, minimum);
}

WeightBlock ReadQ8(const std::byte* p) {
  WeightBlock block;
  SetScale(LoadF16(p), 0, block);
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    block.codes[i] = Byte(p + 2 + i) ^ 0x80;
  }
  return block;
}

// Four bits of 16 inputs in the low halves, of the other 16 in the high ones.
void ReadHalves(const std::byte* p, WeightBlock& block) {
  for (int64_t i = 0; i < kBlockInputs / 2; ++i) {
    block.codes[i] = Byte(p + i) & 15;
    block.codes[i + kBlockInputs / 2] = Byte(p + i) >> 4;
  }
}

WeightBlock ReadQ4(const std::byte* p, bool minimums) {
  WeightBlock block;
  SetScale(LoadF16(p), minimums ? LoadF16(p + 2) : 0, block);
  ReadHalves(p + (minimums ? 4 : 2), block);
  return block;
}

WeightBlock ReadQ5(const std::byte* p, bool minimums) {
  constexpr uint8_t kMiddle = 128 - 16;  // of the codes of Q5_0, as of 8 bits
  WeightBlock block;
  SetScale(LoadF16(p), minimums ? LoadF16(p + 2) : 0, block);
  p += minimums ? 4 : 2;
  ReadHalves(p + 4, block);
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    const int high = Byte(p + i / 8) >> i % 8 & 1;
    block.codes[i] += high * 16 + (minimums ? 0 : kMiddle);
  }
  return block;
}

// Scale and minimum in a Q4_K or Q5_K super-block: six bits each, of its 12
// bytes `p`.
struct SuperScale {
  int scale = 0;
  int minimum = 0;
};
SuperScale ReadSuperScale(const std::byte* p, int64_t index) {
  if (index < 4) return {Byte(p + index) & 63, Byte(p + index + 4) & 63};
  return {(Byte(p + index + 4) & 15) | Byte(p + index - 4) >> 6 << 4,
          Byte(p + index + 4) >> 4 | Byte(p + index) >> 6 << 4};
}

// float16, float16, 12 bytes of scales, with 5 bits the 32 bytes of the highest
// ones, 128 bytes of the others: two blocks in 32.
WeightBlock ReadQ45K(const std::byte* p, int64_t index, bool five) {
  const auto [scale, minimum] = ReadSuperScale(p + 4, index);
  WeightBlock block;
  SetScale(LoadF16(p) * static_cast<float>(scale),
           -(LoadF16(p + 2) * static_cast<float>(minimum)), block);
  const std::byte* const high = p + 16;
  const std::byte* const low =
      high + (five ? kBlockInputs : 0) + index / 2 * kBlockInputs;
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    block.codes[i] = Byte(low + i) >> index % 2 * 4 & 15;
    if (five) block.codes[i] |= (Byte(high + i) >> index & 1) << 4;
  }
  return block;
}

// 128 bytes of four bits, 64 of two, 16 scales, a float16.
WeightBlock ReadQ6K(const std::byte* p, int64_t index) {
  constexpr uint8_t kMiddle = 128 - 32;  // of the codes, as of 8 bits
  const int64_t half = index / 4, part = index % 4;
  const std::byte* const low = p + half * 64 + part % 2 * kBlockInputs;
  const std::byte* const high = p + 128 + half * kBlockInputs;
  const std::byte* const scales = p + 192 + index * 2;
  const float scale = LoadF16(p + 208);
  WeightBlock block;
  for (int64_t i = 0; i < 2; ++i) {
    block.scales[i] =
        scale * static_cast<float>(static_cast<int8_t>(Byte(scales + i)));
  }
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    const int four = Byte(low + i) >> part / 2 * 4 & 15;
    const int two = Byte(high + i) >> part * 2 & 3;
    block.codes[i] = static_cast<uint8_t>((four | two << 4) + kMiddle);
  }
  return block;
}

// A bijection that mixes all bits: the finalizer of SplitMix64 (Steele, Lea,
// Flood, OOPSLA 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

float ReadFloat(Format format, const std::byte* data, int64_t index) {
  if (format == Format::kFloat32) {
    float value;
    std::memcpy(&value, data + index * 4, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + index * 2, sizeof(bits));
  return format == Format::kBf16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
}

}  // namespace

int64_t UnitInputs(Format format) { return LayoutOf(format).unit_inputs; }

int64_t RowBytes(Format format, int64_t inputs) {
  const Layout layout = LayoutOf(format);
  if (format == Format::kRandom) return 0;
  ESPALIER_CHECK(inputs % layout.unit_inputs == 0);
  return inputs / layout.unit_inputs * layout.unit_bytes;
}

BlockFormat BlockFormatOf(Format format) { return LayoutOf(format).format; }

WeightBlock RandomBlock(uint64_t seed, int64_t row, int64_t inputs,
                        int64_t index) {
  constexpr uint8_t kMiddle = 8;  // of codes of 4 bits
  const int64_t blocks = (inputs + kBlockInputs - 1) / kBlockInputs;
  const uint64_t place =
      Mix(seed) + static_cast<uint64_t>(row * blocks + index);
  const uint64_t words[] = {Mix(place), Mix(~place)};
  WeightBlock block;
  for (int64_t i = 0; i < kBlockInputs; ++i) {
    // -7 .. 7: one of the 16 codes becomes 0, so that they are symmetric.
    const auto code = static_cast<uint8_t>(words[i / 16] >> i % 16 * 4 & 15);
    block.codes[i] = code == 0 ? kMiddle : code;
  }
  const int64_t count = std::min(kBlockInputs, inputs - index * kBlockInputs);
  std::fill(block.codes + count, block.codes + kBlockInputs, kMiddle);
  SetScale(RandomScale(inputs), 0, block);
  return block;
}

float RandomScale(int64_t inputs) {
  // The codes have a standard deviation of 4.2.
  const int exponent = -2 - (std::ilogb(static_cast<double>(inputs)) + 1) / 2;
  return std::ldexp(1.0f, exponent);
}

WeightBlock ReadBlock(const WeightSource& source, int64_t row, int64_t inputs,
                      int64_t index) {
  const Layout layout = LayoutOf(source.format);
  const int64_t unit_blocks = layout.unit_inputs / kBlockInputs;
  const std::byte* const unit = source.data +
                                row * RowBytes(source.format, inputs) +
                                index / unit_blocks * layout.unit_bytes;
  switch (source.format) {
    case Format::kQ8_0:
      return ReadQ8(unit);
    case Format::kQ4_0:
      return ReadQ4(unit, /*minimums=*/false);
    case Format::kQ4_1:
      return ReadQ4(unit, /*minimums=*/true);
    case Format::kQ5_0:
      return ReadQ5(unit, /*minimums=*/false);
    case Format::kQ5_1:
      return ReadQ5(unit, /*minimums=*/true);
    case Format::kQ4K:
      return ReadQ45K(unit, index % kSuperBlocks, /*five=*/false);
    case Format::kQ5K:
      return ReadQ45K(unit, index % kSuperBlocks, /*five=*/true);
    case Format::kQ6K:
      return ReadQ6K(unit, index % kSuperBlocks);
    case Format::kRandom:
      return RandomBlock(source.seed, row, inputs, index);
    default:
      ESPALIER_CHECK(false);
  }
}

void ReadWeights(const WeightSource& source, int64_t row, int64_t inputs,
                 int64_t index, float* out) {
  const int64_t begin = index * kBlockInputs;
  if (UnitInputs(source.format) > 1) {
    ESPALIER_CHECK(!source.transposed);
    return Dequantize(ReadBlock(source, row, inputs, index),
                      BlockFormatOf(source.format), out);
  }
  const int64_t count = std::min(kBlockInputs, inputs - begin);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = begin + i;
    out[i] = ReadFloat(
        source.format, source.data,
        source.transposed ? k * source.outputs + row : row * inputs + k);
  }
  std::fill(out + count, out + kBlockInputs, 0.0f);
}

}  // namespace espalier::nn
