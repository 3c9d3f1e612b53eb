#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

class RowKernelsTest : public KernelTest {};
ESPALIER_TEST_ALL_BACKENDS(RowKernelsTest);

TEST_P(RowKernelsTest, NormsAgreeWithFloat64) {
  for (int64_t size : {1, 3, 8, 31, 48, 577}) {
    for (float scale : {1e-4f, 1.0f, 1e4f}) {
      for (bool layer_norm : {false, true}) {
        std::vector<float> x = Random(size, scale);
        for (float& value : x) value += scale / 2;
        const std::vector<float> w = Random(size), b = Random(size);
        std::vector<float> out(size);
        kernels().normalize({.x = x.data(),
                             .size = size,
                             .weight = w.data(),
                             .bias = layer_norm ? b.data() : nullptr,
                             .epsilon = 1e-5f,
                             .out = out.data()});
        double mean = 0, variance = 0;
        if (layer_norm) {
          for (float value : x) mean += value / static_cast<double>(size);
        }
        for (float value : x) variance += (value - mean) * (value - mean);
        variance /= static_cast<double>(size);
        for (int64_t i = 0; i < size; ++i) {
          const double expected =
              (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] +
              (layer_norm ? b[i] : 0.0f);
          ASSERT_NEAR(out[i], expected, 2e-6 * (1 + std::abs(expected)))
              << size << " values of size " << scale;
        }
      }
    }
  }
}

TEST_P(RowKernelsTest, ZerosStayZeroUnderRms) {
  const std::vector<float> x(20), w(20, 1.0f);
  std::vector<float> out(20, 1.0f);
  kernels().normalize({.x = x.data(),
                       .size = 20,
                       .weight = w.data(),
                       .epsilon = 1e-6f,
                       .out = out.data()});
  EXPECT_EQ(out, x);
}

TEST_P(RowKernelsTest, RotationTurnsPairsAndMayWorkInPlace) {
  for (int64_t head_dim : {2, 8, 18, 64, 80}) {
    const int64_t half = head_dim / 2;
    const std::vector<float> x = Random(head_dim), angle = Random(half, 3);
    std::vector<float> cos, sin;
    for (float a : angle) {
      cos.push_back(std::cos(a));
      sin.push_back(std::sin(a));
    }
    std::vector<float> out = x;
    kernels().rotate({.x = out.data(),
                      .head_dim = head_dim,
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .scale = 0.125f,
                      .out = out.data()});
    for (int64_t i = 0; i < half; ++i) {
      EXPECT_NEAR(
          out[i],
          0.125 * (double{x[i]} * cos[i] - double{x[i + half]} * sin[i]), 1e-6);
      EXPECT_NEAR(
          out[i + half],
          0.125 * (double{x[i + half]} * cos[i] + double{x[i]} * sin[i]), 1e-6);
    }
  }
}

// Threads prepare the parts that they have computed.
TEST_P(RowKernelsTest, OperandOfABlockIsPartOfTheRows) {
  for (OperandType type :
       {OperandType::kBf16, OperandType::kBlocks, OperandType::kFineBlocks}) {
    ASSERT_TRUE(IsMadeInParts(type));
    if (type == OperandType::kBf16 && kernels().fast_operand != type) continue;
    for (int64_t inputs : {32, 64, 200}) {
      std::vector<float> x = Random(inputs, 3);
      std::fill_n(x.begin(), 32, 0.0f);
      std::vector<std::byte> whole(OperandBytes(type, inputs));
      std::vector<std::byte> parts(whole.size());
      kernels().prepare(
          {.type = type, .x = x.data(), .inputs = inputs, .out = whole.data()});
      for (int64_t begin = 0; begin < inputs; begin += 64) {
        kernels().prepare({.type = type,
                           .x = &x[begin],
                           .inputs = std::min<int64_t>(64, inputs - begin),
                           .out = &parts[OperandBytes(type, begin)]});
      }
      EXPECT_EQ(whole, parts) << inputs;
    }
  }
}

// Whatever the instructions, blocks have the bits of the plain code.
TEST_P(RowKernelsTest, BlocksAreTheSameOnAllBackends) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int64_t kInputs = 32 * 9;
  std::vector<float> x = Random(kInputs);
  for (int64_t i = 0; i < 32; ++i) {
    x[i] = 0;
    x[32 + i] *= 1e-36f;
    x[64 + i] *= 1e37f;
    x[96 + i] = static_cast<float>(i - 16) + 0.5f;  // ties
  }
  x[128] = kInfinity;
  x[160] = -kInfinity;
  x[192] = std::nanf("");
  x[200] = 1e30f;
  for (OperandType type : {OperandType::kBlocks, OperandType::kFineBlocks}) {
    std::vector<std::byte> blocks(OperandBytes(type, kInputs));
    std::vector<std::byte> plain(blocks.size());
    kernels().prepare(
        {.type = type, .x = x.data(), .inputs = kInputs, .out = blocks.data()});
    PortableKernels().prepare(
        {.type = type, .x = x.data(), .inputs = kInputs, .out = plain.data()});
    EXPECT_EQ(blocks, plain);
  }
}

TEST_P(RowKernelsTest, PagesOfBf16AreTheSameOnAllBackends) {
  constexpr int64_t kHeadDim = 48;
  const auto write = [&](const Kernels& kernels, std::vector<float>& page) {
    for (int64_t slot : {0, 1, 2, 31}) {
      std::mt19937 random(slot);
      std::vector<float> entry(2 * kHeadDim);
      for (float& value : entry) {
        value = std::bit_cast<float>(static_cast<uint32_t>(random()));
      }
      entry[0] = std::nanf("");
      entry[kHeadDim] = std::bit_cast<float>(0x7F800001);  // a NaN to be kept
      entry[kHeadDim + 1] = 1e-40f;
      kernels.write_kv({.type = KvType::kBf16,
                        .keys = page.data(),
                        .values = &page[KvPanelFloats(KvType::kBf16, kHeadDim)],
                        .head_dim = kHeadDim},
                       slot, entry.data(), &entry[kHeadDim]);
    }
  };
  std::vector<float> page(2 * KvPanelFloats(KvType::kBf16, kHeadDim));
  std::vector<float> plain = page;
  write(kernels(), page);
  write(PortableKernels(), plain);
  EXPECT_EQ(std::memcmp(page.data(), plain.data(), page.size() * 4), 0);
}

TEST_P(RowKernelsTest, WithoutAnglesRotationOnlyScales) {
  std::vector<float> x = {1, 2, 3, 4};
  kernels().rotate(
      {.x = x.data(), .head_dim = 4, .scale = 0.5f, .out = x.data()});
  EXPECT_EQ(x, (std::vector<float>{0.5f, 1, 1.5f, 2}));
}

}  // namespace
}  // namespace espalier::nn
