#include "common/nn/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::nn {
namespace {

using ::testing::ElementsAre;

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(1.0f)), 1.0f);
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(1.0f + 0x1p-8f)), 1.0f);  // tie, even
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(1.0f + 0x3p-8f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(1.0f + 0x1.01p-8f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(Bf16ToFloat(FloatToBf16(-0.0f)), 0.0f);
  EXPECT_TRUE(
      std::isinf(Bf16ToFloat(FloatToBf16(std::numeric_limits<float>::max()))));
  EXPECT_TRUE(std::isnan(
      Bf16ToFloat(FloatToBf16(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(Bf16Test, EveryFiniteBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToBf16(value), bits);
  }
}

TEST(F16Test, EveryF16SurvivesTheRoundTripAndTheNextAreReached) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(F16ToFloat(FloatToF16(value))));
      continue;
    }
    ASSERT_EQ(FloatToF16(value), bits);
    if ((bits & 0x7FFF) >= 0x7BFF) continue;
    const float next = F16ToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;  // a tie, to even
    ASSERT_EQ(FloatToF16(middle), bits + bits % 2);
    ASSERT_EQ(FloatToF16(std::nextafter(middle, value)), bits);
    ASSERT_EQ(FloatToF16(std::nextafter(middle, next)), bits + 1);
  }
  EXPECT_EQ(FloatToF16(65519.9f), 0x7BFF);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7C00);
}

TEST(F16Test, WidensAllClasses) {
  EXPECT_EQ(F16ToFloat(0x3C00), 1.0f);
  EXPECT_EQ(F16ToFloat(0xC000), -2.0f);
  EXPECT_EQ(F16ToFloat(0x7BFF), 65504.0f);
  EXPECT_EQ(F16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(F16ToFloat(0x83FF), -0x1.FF8p-15f);
  EXPECT_TRUE(std::signbit(F16ToFloat(0x8000)));
  EXPECT_TRUE(std::isinf(F16ToFloat(0x7C00)));
  EXPECT_TRUE(std::isnan(F16ToFloat(0x7E00)));
}

// Source memory that is not aligned, as in a mapped file.
class Unaligned {
 public:
  Unaligned(const std::vector<float>& values, WeightSource::Format format) {
    bytes_.resize(1);
    for (float value : values) {
      if (format == WeightSource::Format::kFloat32) {
        Append(&value, 4);
      } else {
        const uint16_t bits = FloatToBf16(value);
        Append(&bits, 2);
      }
    }
  }
  const std::byte* data() const { return bytes_.data() + 1; }

 private:
  void Append(const void* value, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(value);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }
  std::vector<std::byte> bytes_;
};

std::vector<float> Counting(int64_t size) {  // exact in bf16 below 256
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 255);
  return values;
}

class PackedMatrixTest : public ::testing::Test {
 protected:
  HugePageArena arena_;
  ThreadPool pool_{{.threads = 2}};
};

TEST_F(PackedMatrixTest, RowsComeBackFromEveryFormatAndType) {
  for (const int64_t outputs : {1, 31, 32, 33, 100}) {
    for (const int64_t inputs : {1, 2, 5, 64}) {
      for (auto format :
           {WeightSource::Format::kBf16, WeightSource::Format::kFloat32}) {
        for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
          const std::vector<float> values = Counting(outputs * inputs);
          const Unaligned source(values, format);
          const PackedMatrix packed = PackedMatrix::Pack(
              {{.format = format, .data = source.data(), .outputs = outputs}},
              {.inputs = inputs, .type = type}, arena_, pool_);
          EXPECT_EQ(packed.out_columns(), outputs);
          EXPECT_EQ(packed.panels(), (outputs + 31) / 32);
          std::vector<float> row(inputs);
          for (int64_t i = 0; i < outputs; ++i) {
            packed.Row(i, row.data());
            ASSERT_TRUE(std::equal(row.begin(), row.end(),
                                   values.begin() + i * inputs));
          }
        }
      }
    }
  }
}

TEST_F(PackedMatrixTest, PartsFollowEachOtherAndMayBeTransposed) {
  // [2 inputs][3 outputs] and [1 output][2 inputs].
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7, 8};
  const auto format = WeightSource::Format::kFloat32;
  const Unaligned first(a, format), second(b, format);
  const PackedMatrix packed = PackedMatrix::Pack(
      {{.format = format,
        .data = first.data(),
        .outputs = 3,
        .transposed = true},
       {.format = format, .data = second.data(), .outputs = 1}},
      {.inputs = 2}, arena_, pool_);
  std::vector<std::vector<float>> rows(4, std::vector<float>(2));
  for (int64_t i = 0; i < 4; ++i) packed.Row(i, rows[i].data());
  EXPECT_THAT(rows, ElementsAre(ElementsAre(1, 4), ElementsAre(2, 5),
                                ElementsAre(3, 6), ElementsAre(7, 8)));
}

TEST_F(PackedMatrixTest, BytesAreReleasedOnlyWhenTheyHaveBeenPacked) {
  const auto format = WeightSource::Format::kBf16;
  constexpr int64_t kInputs = 6, kOutputs = 1000;
  static std::vector<std::byte> memory;  // what a release spoils
  for (bool gated : {false, true}) {
    for (bool transposed : {false, true}) {
      const std::vector<float> values = Counting(2 * kOutputs * kInputs);
      const Unaligned source(values, format);
      memory.assign(source.data(), source.data() + values.size() * 2);
      std::vector<WeightSource> parts;
      for (int64_t part : {0, 1}) {
        parts.push_back({.format = format,
                         .data = &memory[part * kOutputs * kInputs * 2],
                         .outputs = kOutputs,
                         .transposed = transposed,
                         .release = [](absl::Span<const std::byte> bytes) {
                           std::memset(&memory[bytes.data() - memory.data()],
                                       0xFF, bytes.size());
                         }});
      }
      const PackedMatrix spoilt = PackedMatrix::Pack(
          parts, {.inputs = kInputs, .gated = gated}, arena_, pool_);
      EXPECT_EQ(memory, std::vector<std::byte>(memory.size(), std::byte{0xFF}));
      memory.assign(source.data(), source.data() + values.size() * 2);
      for (WeightSource& part : parts) part.release = nullptr;
      const PackedMatrix expected = PackedMatrix::Pack(
          parts, {.inputs = kInputs, .gated = gated}, arena_, pool_);
      EXPECT_EQ(0, std::memcmp(spoilt.view().data, expected.view().data,
                               expected.bytes()));
    }
  }
}

TEST_F(PackedMatrixTest, LayoutIsPairsOfInputsByOutputWithZeroPadding) {
  const auto format = WeightSource::Format::kBf16;
  const Unaligned source({1, 2, 3, 4, 5, 6}, format);  // [2 outputs][3 inputs]
  const PackedMatrix packed = PackedMatrix::Pack(
      {{.format = format, .data = source.data(), .outputs = 2}}, {.inputs = 3},
      arena_, pool_);
  // 32 inputs, a whole tile, in pairs.
  ASSERT_EQ(packed.bytes(), 16 * 32 * 2 * 2);
  std::vector<uint16_t> bits(16 * 32 * 2);
  std::memcpy(bits.data(), packed.view().data, packed.bytes());
  std::vector<float> values;
  for (uint16_t b : bits) values.push_back(Bf16ToFloat(b));
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 5),
              ElementsAre(1, 2, 4, 5, 0));
  EXPECT_THAT(std::vector<float>(values.begin() + 64, values.begin() + 69),
              ElementsAre(3, 0, 6, 0, 0));
  EXPECT_THAT(std::vector<float>(values.begin() + 128, values.end()),
              ::testing::Each(0));
}

TEST_F(PackedMatrixTest, BlocksAreWithinHalfAStepOfTheirOwn) {
  const auto float32 = WeightSource::Format::kFloat32;
  constexpr int64_t kInputs = 70, kOutputs = 33;  // blocks of 32, 32 and 6
  std::vector<float> weights(kInputs * kOutputs);
  for (int64_t i = 0; i < std::ssize(weights); ++i) {
    const int64_t block = i % kInputs / kBlockInputs;
    weights[i] = static_cast<float>(i * 7919 % 1001 - 300) *
                 std::pow(10.0f, static_cast<float>(block) - 4);
  }
  const Unaligned source(weights, float32);
  for (const BlockFormat& format :
       {BlockFormat{}, {.bits = 4}, {.bits = 4, .minimums = true}}) {
    const PackedMatrix packed = PackedMatrix::Pack(
        {{.format = float32, .data = source.data(), .outputs = kOutputs}},
        {.inputs = kInputs, .type = WeightType::kBlocks, .format = format},
        arena_, pool_);
    EXPECT_EQ(packed.bytes(), 2 * 3 * BlockBytes(format));
    EXPECT_TRUE(packed.rounded());
    for (int64_t row = 0; row < kOutputs; ++row) {
      float unpacked[kInputs];
      packed.Row(row, unpacked);
      for (int64_t k = 0; k < kInputs; k += kBlockInputs) {
        const float* const block = &weights[row * kInputs + k];
        const int64_t size = std::min(kBlockInputs, kInputs - k);
        auto [low, high] = std::minmax_element(block, block + size);
        // What is missing to a whole block is zero.
        const float least = size < kBlockInputs ? std::min(*low, 0.0f) : *low;
        const float most = size < kBlockInputs ? std::max(*high, 0.0f) : *high;
        const float step =
            format.minimums
                ? (most - least) / 15
                : std::max(-least, most) / (format.bits == 8 ? 127.0f : 7.0f);
        for (int64_t i = 0; i < size; ++i) {
          // Scales and minimums have 11 bits.
          ASSERT_NEAR(unpacked[k + i], block[i],
                      step / 2 * 1.003f + std::abs(least) * 0x1p-10f);
        }
      }
    }
  }
}

TEST_F(PackedMatrixTest, BlocksOfWhatIsNotFiniteAreNotFinite) {
  std::vector<float> weights(64, 1);
  weights[40] = std::numeric_limits<float>::infinity();
  const auto float32 = WeightSource::Format::kFloat32;
  const Unaligned source(weights, float32);
  const PackedMatrix packed = PackedMatrix::Pack(
      {{.format = float32, .data = source.data(), .outputs = 1}},
      {.inputs = 64, .type = WeightType::kBlocks}, arena_, pool_);
  float row[64];
  packed.Row(0, row);
  EXPECT_NEAR(row[0], 1, 1e-3);
  EXPECT_TRUE(std::isnan(row[32]));
}

TEST_F(PackedMatrixTest, EveryTypeHoldsRandomWeightsExactly) {
  constexpr int64_t kInputs = 112, kOutputs = 40;  // no whole blocks or panels
  const WeightSource source = {
      .format = WeightSource::Format::kRandom, .seed = 3, .outputs = kOutputs};
  const auto expect_exact = [&](WeightType type, const BlockFormat& format) {
    const PackedMatrix packed = PackedMatrix::Pack(
        {source}, {.inputs = kInputs, .type = type, .format = format}, arena_,
        pool_);
    std::vector<float> row(kInputs), wanted(kBlockInputs);
    for (int64_t output = 0; output < kOutputs; ++output) {
      packed.Row(output, row.data());
      for (int64_t i = 0; i < kInputs; ++i) {
        ReadWeights(source, output, kInputs, i / kBlockInputs, wanted.data());
        ASSERT_EQ(row[i], wanted[i % kBlockInputs]);
      }
    }
  };
  expect_exact(WeightType::kFloat32, {});
  expect_exact(WeightType::kBf16, {});
  expect_exact(WeightType::kBlocks, {});
  expect_exact(WeightType::kBlocks, {.bits = 4, .minimums = true});
  float last[kBlockInputs];
  ReadWeights(source, /*row=*/0, kInputs, /*index=*/3, last);
  EXPECT_EQ(last[kInputs % kBlockInputs], 0);
}

TEST_F(PackedMatrixTest, BiasOfAGatedProductIsMixedByHalfPanels) {
  std::vector<float> gate(17), value(17);
  for (int i = 0; i < 17; ++i) {
    gate[i] = static_cast<float>(i);
    value[i] = static_cast<float>(100 + i);
  }
  const std::vector<float> packed = PackBias({gate, value}, /*gated=*/true);
  ASSERT_EQ(packed.size(), 64u);
  EXPECT_EQ(packed[0], 0);
  EXPECT_EQ(packed[15], 15);
  EXPECT_EQ(packed[16], 100);
  EXPECT_EQ(packed[31], 115);
  EXPECT_EQ(packed[32], 16);
  EXPECT_EQ(packed[33], 0);  // padding
  EXPECT_EQ(packed[48], 116);
}

TEST(HugePageArenaTest, PiecesAreAlignedAndDoNotOverlap) {
  HugePageArena arena;
  std::vector<std::pair<std::byte*, int64_t>> pieces;
  for (int64_t bytes : {1, 64, 100, 40 << 20, 3, 5 << 20, 30 << 20}) {
    pieces.push_back({arena.Allocate(bytes), bytes});
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces[i].first) % 64, 0u);
    std::memset(pieces[i].first, static_cast<int>(i), pieces[i].second);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [data, bytes] = pieces[i];
    EXPECT_EQ(data[0], static_cast<std::byte>(i));
    EXPECT_EQ(data[bytes - 1], static_cast<std::byte>(i));
  }
}

}  // namespace
}  // namespace espalier::nn
