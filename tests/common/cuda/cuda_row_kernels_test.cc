#include <set>
#include <vector>

#include "common/base/e4m3.h"
#include "common/nn/weight_source.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class RowKernelsTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(RowKernelsTest);

TEST_P(RowKernelsTest, EmbedsRowsOfPackedWeights) {
  constexpr int kVocab = 192, kHidden = 1088;
  const std::vector<uint16_t> table = Random(1).Bf16s(kVocab * kHidden);
  const std::vector<int32_t> tokens = {0, 191, 64, 64, 5};
  const int rows = static_cast<int>(tokens.size());
  ComputeDevice& device = Device();
  const auto packed = ArrayOf(device, PackWeights(table, kVocab, kHidden));
  const auto ids = ArrayOf(device, tokens);
  const auto x = NanArray<float>(device, rows * kHidden);
  const auto tap = NanArray<uint16_t>(device, rows * kHidden);
  device.Launch(EmbedArgs{.table = packed.data(),
                          .tokens = ids.data(),
                          .rows = rows,
                          .hidden = kHidden,
                          .x = x.data(),
                          .tap = tap.data()});
  const std::vector<float> got = ValuesOf(device, x);
  const std::vector<uint16_t> tapped = ValuesOf(device, tap);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < kHidden; ++i) {
      const uint16_t wanted = table[tokens[row] * kHidden + i];
      ASSERT_EQ(got[row * kHidden + i], Bf16ToFloat(wanted));
      ASSERT_EQ(tapped[row * kHidden + i], wanted);
    }
  }
}

TEST_P(RowKernelsTest, EmbeddingsAreScaled) {
  constexpr int kVocab = 64, kHidden = 64;
  const std::vector<uint16_t> table = Random(2).Bf16s(kVocab * kHidden);
  ComputeDevice& device = Device();
  const auto packed = ArrayOf(device, PackWeights(table, kVocab, kHidden));
  const auto ids = ArrayOf(device, std::vector<int32_t>{7});
  const auto x = NanArray<float>(device, kHidden);
  const auto tap = NanArray<uint16_t>(device, kHidden);
  device.Launch(EmbedArgs{.table = packed.data(),
                          .tokens = ids.data(),
                          .rows = 1,
                          .hidden = kHidden,
                          .scale = 25.3f,
                          .x = x.data(),
                          .tap = tap.data()});
  const std::vector<float> got = ValuesOf(device, x);
  const std::vector<uint16_t> tapped = ValuesOf(device, tap);
  for (int i = 0; i < kHidden; ++i) {
    ASSERT_EQ(got[i], 25.3f * Bf16ToFloat(table[7 * kHidden + i]));
    ASSERT_EQ(tapped[i], FloatToBf16(got[i]));
  }
}

struct NormProblem {
  int rows, hidden, splits;
  bool has_bias;
  std::vector<int32_t> out_rows;  // empty: all rows, in their order
  std::vector<float> x, parts, weight, bias;
  std::vector<float> added_weight = {};  // empty: none

  NormProblem(int r, int h, int s, bool with_bias)
      : rows(r), hidden(h), splits(s), has_bias(with_bias) {
    Random random(r * 7 + h);
    x = random.Normals(int64_t{r} * h);
    weight = random.Normals(h);
    bias = random.Normals(h);
    // The padding of the parts is never read.
    parts.assign(int64_t{s} * PaddedRows(r) * h,
                 std::numeric_limits<float>::quiet_NaN());
    for (int split = 0; split < s; ++split) {
      for (int i = 0; i < r * h; ++i) {
        parts[int64_t{split} * PaddedRows(r) * h + i] = random.Normal();
      }
    }
  }
  double Sum(int row, int i) const {
    return x[row * hidden + i] + Added(row, i);
  }
  double Added(int row, int i) const {
    if (added_weight.empty()) return Parts(row, i);
    double squares = 0;
    for (int j = 0; j < hidden; ++j) squares += std::pow(Parts(row, j), 2);
    return Parts(row, i) / std::sqrt(squares / hidden + 1e-5f) *
           added_weight[i];
  }
  double Parts(int row, int i) const {
    double sum = 0;
    for (int s = 0; s < splits; ++s) {
      sum += parts[(int64_t{s} * PaddedRows(rows) + row) * hidden + i];
    }
    return has_bias ? sum + bias[i] : sum;
  }
};

struct NormResult {
  std::vector<float> x;
  std::vector<unsigned char> out;
  std::vector<uint16_t> tap, normed_tap;
};

NormResult Normalize(ComputeDevice& device, const NormProblem& p) {
  const auto x = ArrayOf(device, p.x);
  const auto parts = ArrayOf(device, p.parts);
  const auto weight = ArrayOf(device, p.weight);
  const auto added_weight = ArrayOf(device, p.added_weight);
  const auto bias = ArrayOf(device, p.bias);
  const auto out_rows = ArrayOf(device, p.out_rows);
  const auto out = NanArray<unsigned char>(
      device, static_cast<int64_t>(ActivationBytes(p.rows, p.hidden)));
  const auto tap = NanArray<uint16_t>(device, p.rows * p.hidden);
  const auto normed = NanArray<uint16_t>(device, p.rows * p.hidden);
  device.Launch(ResidualNormArgs{
      .x = x.data(),
      .parts = {.values = parts.data(),
                .splits = p.splits,
                .padded_rows = PaddedRows(p.rows),
                .outputs = p.hidden,
                .bias = p.has_bias ? bias.data() : nullptr},
      .rows = p.rows,
      .hidden = p.hidden,
      .added_weight = p.added_weight.empty() ? nullptr : added_weight.data(),
      .weight = weight.data(),
      .epsilon = 1e-5f,
      .out_rows = p.out_rows.empty() ? nullptr : out_rows.data(),
      .out = out.data(),
      .out_block = RowBlock(p.rows),
      .tap = tap.data(),
      .normed_tap = normed.data()});
  return {ValuesOf(device, x), ValuesOf(device, out), ValuesOf(device, tap),
          ValuesOf(device, normed)};
}

TEST_P(RowKernelsTest, AddsPartsAndNorms) {
  for (const auto& p :
       {NormProblem(1, 64, 0, false), NormProblem(3, 576, 2, false),
        NormProblem(18, 1088, 4, true), NormProblem(2, 5120, 2, false),
        NormProblem(1, 8256, 1, true), NormProblem(1, 20480, 1, false)}) {
    const NormResult got = Normalize(Device(), p);
    for (int row = 0; row < p.rows; ++row) {
      double squares = 0;
      for (int i = 0; i < p.hidden; ++i) squares += std::pow(p.Sum(row, i), 2);
      const double scale = 1 / std::sqrt(squares / p.hidden + 1e-5f);
      for (int i = 0; i < p.hidden; ++i) {
        const int at = row * p.hidden + i;
        const double sum = p.Sum(row, i), wanted = sum * scale * p.weight[i];
        ASSERT_NEAR(got.x[at], sum, std::abs(sum) * 1e-6 + 1e-5);
        ASSERT_EQ(got.tap[at], FloatToBf16(got.x[at]));
        ASSERT_NEAR(Bf16ToFloat(got.normed_tap[at]), wanted,
                    std::abs(wanted) * 0.004 + 1e-5);
        ASSERT_EQ(ActivationAt(got.out, p.rows, p.hidden, row, i),
                  got.normed_tap[at]);
      }
    }
  }
}

TEST_P(RowKernelsTest, WhatIsAddedIsNormedByItself) {
  for (auto p : {NormProblem(3, 64, 1, false), NormProblem(2, 1088, 4, true),
                 NormProblem(1, 8256, 2, false)}) {
    p.added_weight = Random(9).Normals(p.hidden);
    const std::vector<float> x = Normalize(Device(), p).x;
    for (int row = 0; row < p.rows; ++row) {
      for (int i = 0; i < p.hidden; i += 7) {
        ASSERT_NEAR(x[row * p.hidden + i], p.Sum(row, i), 2e-5);
      }
    }
    for (uint64_t seed = 2; seed < 5; ++seed) {
      EXPECT_TRUE(SameBits(Normalize(Device(seed), p).x, x));
    }
  }
}

TEST_P(RowKernelsTest, NormBitsAreTheRowsAlone) {
  const NormProblem p(20, 576, 3, true);
  const NormResult all = Normalize(Device(1), p);
  for (uint64_t seed = 2; seed < 5; ++seed) {
    EXPECT_TRUE(SameBits(Normalize(Device(seed), p).out, all.out));
  }
  NormProblem one(1, 576, 3, true);
  one.weight = p.weight;
  one.bias = p.bias;
  for (int i = 0; i < 576; ++i) {
    one.x[i] = p.x[7 * 576 + i];
    for (int s = 0; s < 3; ++s) {
      one.parts[(s * 16) * 576 + i] = p.parts[(s * 32 + 7) * 576 + i];
    }
  }
  const NormResult alone = Normalize(Device(9), one);
  for (int i = 0; i < 576; ++i) {
    ASSERT_EQ(alone.normed_tap[i], all.normed_tap[7 * 576 + i]);
    ASSERT_EQ(alone.x[i], all.x[7 * 576 + i]);
  }
}

TEST_P(RowKernelsTest, NormsWantedRowsOnly) {
  NormProblem p(4, 128, 1, false);
  const NormResult all = Normalize(Device(), p);
  p.out_rows = {-1, 1, -1, 0};
  const NormResult got = Normalize(Device(), p);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(ActivationAt(got.out, 4, 128, 0, i),
              ActivationAt(all.out, 4, 128, 3, i));
    EXPECT_EQ(ActivationAt(got.out, 4, 128, 1, i),
              ActivationAt(all.out, 4, 128, 1, i));
    EXPECT_EQ(ActivationAt(got.out, 4, 128, 2, i), 0xffff);  // untouched
  }
  EXPECT_TRUE(SameBits(got.x, all.x));
  EXPECT_TRUE(SameBits(got.tap, all.tap));
}

// Made on the device, they are those that the CPU makes.
TEST_P(RowKernelsTest, RandomWeightsAreThoseOfTheirSeed) {
  constexpr int kRows = 72, kOutputs = 128, kInputs = 192;
  const auto wanted = [](uint64_t seed, int row, int i) {
    const nn::WeightBlock block = nn::RandomBlock(seed, row, kInputs, i / 32);
    float values[nn::kBlockInputs];
    nn::Dequantize(block, nn::BlockFormatOf(nn::WeightSource::Format::kRandom),
                   values);
    return FloatToBf16(values[i % 32]);
  };
  ComputeDevice& device = Device();
  const auto out = NanArray<unsigned char>(device, kOutputs * kInputs * 2);
  RandomWeightsArgs args = {.seed = 7,
                            .scale = nn::RandomScale(kInputs),
                            .rows = kRows,
                            .outputs = kOutputs,
                            .inputs = kInputs,
                            .out = out.data()};
  device.Launch(args);
  const auto at = [](const std::vector<unsigned char>& packed, int output,
                     int i) {
    uint16_t bits;
    std::memcpy(&bits, &packed[WeightPlace(kInputs, output, i)], 2);
    return bits;
  };
  const std::vector<unsigned char> in_order = ValuesOf(device, out);
  for (int row = 0; row < kOutputs; ++row) {
    for (int i = 0; i < kInputs; ++i) {
      ASSERT_EQ(at(in_order, row, i), row < kRows ? wanted(7, row, i) : 0);
    }
  }
  args.rows = args.outputs = kOutputs / 2;
  args.placing = Placing::kGatedValues;
  device.Launch(args);
  args.seed = 8;
  args.placing = Placing::kGates;
  device.Launch(args);
  const std::vector<unsigned char> gated = ValuesOf(device, out);
  for (int row = 0; row < kOutputs / 2; ++row) {
    for (int i = 0; i < kInputs; ++i) {
      ASSERT_EQ(at(gated, GatePlace(row), i), wanted(8, row, i));
      ASSERT_EQ(at(gated, GatedValuePlace(row), i), wanted(7, row, i));
    }
  }
}

TEST_P(RowKernelsTest, RandomE4m3IsTheSameWithItsScale) {
  constexpr int kRows = 72, kOutputs = 128, kInputs = 192;
  ComputeDevice& device = Device();
  const auto wide = NanArray<unsigned char>(device, kOutputs * kInputs * 2);
  const auto narrow = NanArray<unsigned char>(device, kOutputs * kInputs);
  RandomWeightsArgs args = {.seed = 7,
                            .scale = 1,
                            .rows = kRows,
                            .outputs = kOutputs,
                            .inputs = kInputs,
                            .out = wide.data()};
  device.Launch(args);
  args.is_e4m3 = true;
  args.out = narrow.data();
  device.Launch(args);
  const std::vector<unsigned char> values = ValuesOf(device, wide);
  const std::vector<unsigned char> codes = ValuesOf(device, narrow);
  std::set<float> seen;
  for (int row = 0; row < kOutputs; ++row) {
    for (int i = 0; i < kInputs; ++i) {
      uint16_t bits;
      std::memcpy(&bits, &values[WeightPlace(kInputs, row, i)], 2);
      const float value = Bf16ToFloat(bits);
      seen.insert(value);
      ASSERT_EQ(codes[E4m3WeightPlace(kInputs, row, i)], FloatToE4m3(value));
    }
  }
  EXPECT_EQ(seen.size(), 15u);
}

TEST_P(RowKernelsTest, ReadsAllOfTheMemory) {
  ComputeDevice& device = Device();
  // A whole turn of several pieces, and a part of the next.
  std::vector<uint32_t> words((9 * kReadSums + 77) * 4);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint32_t>(i) * 2654435761u;
  }
  const auto memory = ArrayOf(device, words);
  const auto sums = NanArray<uint32_t>(device, kReadSums);
  device.Launch(
      ReadArgs{.memory = reinterpret_cast<const unsigned char*>(memory.data()),
               .bytes = static_cast<int64_t>(words.size() * 4),
               .sums = sums.data()});
  uint32_t wanted = 0, got = 0;
  for (uint32_t word : words) wanted ^= word;
  for (uint32_t sum : ValuesOf(device, sums)) got ^= sum;
  EXPECT_EQ(got, wanted);
}

}  // namespace
}  // namespace espalier::cuda
