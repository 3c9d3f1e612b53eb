#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <vector>

#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"
#include "tests/testing/e4m3_value.h"

namespace espalier::cuda::cuda_product_test {
namespace {

class ProductTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(ProductTest);

enum class Weights { kBf16, kE4m3 };
constexpr Weights kAllWeights[] = {Weights::kBf16, Weights::kE4m3};

struct Problem {
  Weights type;
  int outputs, inputs, rows;
  std::vector<uint16_t> w;     // bf16
  std::vector<uint8_t> codes;  // e4m3
  std::vector<float> scales;
  std::vector<uint16_t> x;

  Problem(Weights t, int o, int i, int r, uint64_t seed)
      : type(t), outputs(o), inputs(i), rows(r) {
    Random random(seed);
    const int64_t size = int64_t{o} * i;
    if (type == Weights::kBf16) {
      w = random.Bf16s(size);
    } else {
      for (int64_t k = 0; k < size; ++k) {
        const auto code = static_cast<uint8_t>(random.Below(256));
        codes.push_back((code & 0x7f) == 0x7f ? code ^ 1 : code);
      }
      for (float scale : random.Normals(o, 0.01f)) {
        scales.push_back(std::abs(scale));
      }
    }
    x = random.Bf16s(int64_t{r} * i);
  }
  // Returns the first rows alone.
  Problem First(int count) const {
    Problem part = *this;
    part.rows = count;
    part.x.resize(int64_t{count} * inputs);
    return part;
  }
  double Weight(int output, int input) const {
    const int64_t at = int64_t{output} * inputs + input;
    return type == Weights::kBf16 ? Bf16ToFloat(w[at])
                                  : E4m3Value(codes[at]) * scales[output];
  }
  struct Sum {
    double exact;
    // What the sum may miss: products are summed in float32, and the tensor
    // cores cut off what they do not round.
    double slack;
  };
  // Returns [rows, outputs].
  std::vector<Sum> Sums() const {
    std::vector<double> widened;
    for (uint16_t value : x) widened.push_back(Bf16ToFloat(value));
    std::vector<double> weights(inputs);
    std::vector<Sum> sums(int64_t{rows} * outputs);
    for (int o = 0; o < outputs; ++o) {
      for (int i = 0; i < inputs; ++i) weights[i] = Weight(o, i);
      for (int row = 0; row < rows; ++row) {
        sums[int64_t{row} * outputs + o] =
            SumOf(weights.data(), &widened[int64_t{row} * inputs]);
      }
    }
    return sums;
  }
  Sum SumOf(const double* weights, const double* row) const {
    double sum = 0, squares = 0;
    for (int i = 0; i < inputs; ++i) {
      const double product = weights[i] * row[i];
      sum += product;
      squares += product * product;
    }
    return {.exact = sum, .slack = 1e-5 * std::sqrt(squares)};
  }
  std::vector<unsigned char> Packed() const {
    if (type == Weights::kBf16) return PackWeights(w, outputs, inputs);
    std::vector<unsigned char> packed(codes.size());
    for (int o = 0; o < outputs; ++o) {
      for (int i = 0; i < inputs; ++i) {
        packed[E4m3WeightPlace(inputs, o, i)] = codes[int64_t{o} * inputs + i];
      }
    }
    return packed;
  }
};

// A problem on a device, whose results are NaN at first.
class OnDevice {
 public:
  OnDevice(ComputeDevice& device, const Problem& p)
      : weights_(ArrayOf(device, p.Packed())),
        scales_(ArrayOf(device, p.scales)),
        rows_(ArrayOf(device, PackActivations(p.x, p.rows, p.inputs))) {
    args = {.weights = weights_.data(),
            .scales = p.type == Weights::kE4m3 ? scales_.data() : nullptr,
            .activations = rows_.data(),
            .rows = p.rows,
            .inputs = p.inputs,
            .outputs = p.outputs};
  }

  ProductArgs args;

 private:
  const DeviceArray<unsigned char> weights_;
  const DeviceArray<float> scales_;
  const DeviceArray<unsigned char> rows_;
};

// Returns [rows, outputs], parts added in their order. change: of the
// arguments.
std::vector<float> Multiply(
    ComputeDevice& device, const Problem& p,
    const std::function<void(ProductArgs&)>& change = nullptr) {
  OnDevice there(device, p);
  if (change != nullptr) change(there.args);
  const int splits = ProductSplits(p.outputs, p.inputs);
  const int64_t padded = PaddedRows(p.rows);
  const DeviceArray<float> parts =
      NanArray<float>(device, splits * padded * p.outputs);
  there.args.parts = parts.data();
  device.Launch(there.args);
  const std::vector<float> values = ValuesOf(device, parts);
  std::vector<float> out(int64_t{p.rows} * p.outputs);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = 0;
    for (int split = 0; split < splits; ++split) {
      out[i] += values[split * padded * p.outputs + i];
    }
  }
  return out;
}

double Error(const Problem& p, const std::vector<float>& out) {
  RelativeError error;
  const std::vector<Problem::Sum> sums = p.Sums();
  for (size_t i = 0; i < sums.size(); ++i) error.Add(out[i], sums[i].exact);
  return error.value();
}

TEST_P(ProductTest, IsThatOfFloat64) {
  // Whole and partial blocks of strips, one split and several, a ring that is
  // longer than the inputs and one that goes round.
  for (const auto [outputs, inputs, rows] : {std::array{64, 64, 1},
                                             {256, 640, 16},
                                             {320, 192, 5},
                                             {384, 1024, 17},
                                             {192, 512, 64},
                                             {128, 1600, 33}}) {
    for (Weights type : kAllWeights) {
      SCOPED_TRACE(testing::Message()
                   << outputs << " x " << inputs << ", " << rows << " rows");
      const Problem problem(type, outputs, inputs, rows, 1);
      EXPECT_LT(Error(problem, Multiply(Device(), problem)), 3e-6);
    }
  }
}

TEST_P(ProductTest, TakesBlocksOfRows) {
  for (Weights type : kAllWeights) {
    for (int rows : {100, 200, 300, 512}) {
      const Problem problem(type, 128, 128, rows, 2);
      EXPECT_LT(Error(problem, Multiply(Device(), problem)), 3e-6) << rows;
    }
  }
}

void ExpectBitsOfTheRowAlone(const Problem& all,
                             const std::function<ComputeDevice&(int)>& device) {
  const std::vector<float> expected = Multiply(device(1), all);
  for (int rows : {1, 16, 17, 33, 64, 65, 100, 128, 129, 256}) {
    const std::vector<float> first(
        expected.begin(), expected.begin() + int64_t{rows} * all.outputs);
    EXPECT_TRUE(SameBits(Multiply(device(rows), all.First(rows)), first))
        << all.outputs << " outputs, " << rows << " rows";
  }
}

TEST_P(ProductTest, BitsDependOnTheRowAlone) {
  for (Weights type : kAllWeights) {
    for (const auto [outputs, inputs] : {std::array{192, 576}, {256, 320}}) {
      ExpectBitsOfTheRowAlone(
          Problem(type, outputs, inputs, 260, 3),
          [this](int seed) -> ComputeDevice& { return Device(seed); });
    }
  }
}

TEST_P(ProductTest, BitsDoNotDependOnTheSchedule) {
  for (Weights type : kAllWeights) {
    const Problem problem(type, 192, 2048, 40, 4);
    const std::vector<float> expected = Multiply(Device(1), problem);
    for (uint64_t seed = 2; seed < 8; ++seed) {
      EXPECT_TRUE(SameBits(Multiply(Device(seed), problem), expected)) << seed;
    }
  }
}

// A block takes one part after another, and its ring runs on: to a last strip
// that has no neighbour, over ranges of inputs, and through parts that are
// shorter than the ring.
TEST_P(ProductTest, FewBlocksGiveTheBitsOfMany) {
  for (Weights type : kAllWeights) {
    for (const auto [outputs, inputs, rows] : {std::array{832, 640, 3},
                                               {320, 64, 17},
                                               {320, 1600, 20},
                                               {384, 1536, 65},
                                               {320, 512, 300}}) {
      const Problem p(type, outputs, inputs, rows, 8);
      const auto with_blocks = [&](uint64_t seed, int blocks) {
        return Multiply(Device(seed), p, [blocks](ProductArgs& args) {
          args.most_blocks = blocks;
        });
      };
      const std::vector<float> many = with_blocks(1, 1 << 20);
      EXPECT_LT(Error(p, many), 3e-6);
      for (int blocks : {1, 2, 3}) {
        for (uint64_t seed : {2, 3}) {
          EXPECT_TRUE(SameBits(with_blocks(seed, blocks), many))
              << outputs << " x " << inputs << ", " << blocks << " blocks";
        }
      }
    }
  }
}

TEST_P(ProductTest, WhatTheCacheKeepsChangesNoBit) {
  for (Weights type : kAllWeights) {
    const Problem p(type, 192, 640, 20, 9);
    const auto with = [&](bool leave) {
      return Multiply(Device(), p, [leave](ProductArgs& args) {
        args.weights_leave_cache = leave;
      });
    };
    EXPECT_TRUE(SameBits(with(true), with(false)));
  }
}

// Returns [rows, outputs / 2] of a gated product, as activations.
std::vector<unsigned char> GatedOf(
    ComputeDevice& device, const Problem& p,
    const std::function<void(ProductArgs&)>& change) {
  OnDevice there(device, p);
  change(there.args);
  const DeviceArray<unsigned char> gated = NanArray<unsigned char>(
      device, static_cast<int64_t>(ActivationBytes(p.rows, p.outputs / 2)));
  there.args.gated = gated.data();
  device.Launch(there.args);
  return ValuesOf(device, gated);
}

// Whole and partial blocks of rows, of parts that a block takes in turn.
TEST_P(ProductTest, LargeTilesChangeNoBit) {
  for (const auto [outputs, inputs, rows] : {std::array{384, 576, 145},
                                             {768, 320, 256},
                                             {384, 640, 300},
                                             {1152, 128, 512}}) {
    const Problem p(Weights::kBf16, outputs, inputs, rows, 10);
    const auto with = [](bool large, int blocks = kProductBlocks) {
      return [large, blocks](ProductArgs& args) {
        args.tiles_are_large = large;
        args.most_blocks = blocks;
      };
    };
    SCOPED_TRACE(testing::Message()
                 << outputs << " x " << inputs << ", " << rows << " rows");
    const std::vector<float> sums = Multiply(Device(1), p, with(false));
    const std::vector<unsigned char> gated = GatedOf(Device(1), p, with(false));
    for (int blocks : {kProductBlocks, 1, 4}) {
      EXPECT_TRUE(
          SameBits(Multiply(Device(blocks), p, with(true, blocks)), sums));
    }
    EXPECT_TRUE(GatedOf(Device(2), p, with(true, 2)) == gated);
  }
}

// Row i is one in column i alone: it finds the weights of input i.
void MakeOneHot(Problem& problem) {
  std::fill(problem.x.begin(), problem.x.end(), 0);
  for (int row = 0; row < problem.rows; ++row) {
    problem.x[row * problem.inputs + row] = FloatToBf16(1);
  }
}

TEST_P(ProductTest, ReadsEveryWeightFromItsPlace) {
  for (Weights type : kAllWeights) {
    Problem problem(type, 320, 128, 128, 5);
    // Whole numbers, so that nothing is rounded.
    for (float& scale : problem.scales) {
      scale = static_cast<float>(1 + (&scale - problem.scales.data()) % 37);
    }
    MakeOneHot(problem);
    const std::vector<float> out = Multiply(Device(), problem);
    for (int row = 0; row < problem.rows; ++row) {
      for (int o = 0; o < problem.outputs; ++o) {
        ASSERT_EQ(out[row * problem.outputs + o], problem.Weight(o, row));
      }
    }
  }
}

// Numbers below the least normal one are widened as well.
TEST_P(ProductTest, WidensEveryE4m3Exactly) {
  Problem problem(Weights::kE4m3, 64, 64, 64, 6);
  std::fill(problem.scales.begin(), problem.scales.end(), 1.0f);
  for (int i = 0; i < 64 * 64; ++i) {
    problem.codes[i] = static_cast<uint8_t>(i % 251 + i / 251);
  }
  MakeOneHot(problem);
  const std::vector<float> out = Multiply(Device(), problem);
  std::set<uint8_t> seen;
  for (int row = 0; row < 64; ++row) {
    for (int o = 0; o < 64; ++o) {
      const uint8_t code = problem.codes[o * 64 + row];
      seen.insert(code);
      ASSERT_EQ(out[row * 64 + o], E4m3Value(code)) << int{code};
    }
  }
  EXPECT_EQ(seen.size(), 256u);
}

// A scale is of its output alone, however large, small or broken it is.
TEST_P(ProductTest, ScalesAreOfTheirOutputs) {
  Problem problem(Weights::kE4m3, 192, 64, 20, 7);
  for (int o = 0; o < problem.outputs; ++o) {
    problem.scales[o] = std::ldexp(1.0f, o % 200 - 100);
  }
  problem.scales[70] = std::nanf("");
  const std::vector<float> out = Multiply(Device(), problem);
  const std::vector<Problem::Sum> sums = problem.Sums();
  for (int row = 0; row < problem.rows; ++row) {
    for (int o = 0; o < problem.outputs; ++o) {
      const int at = row * problem.outputs + o;
      const float got = out[at];
      const double unit = std::ldexp(1.0, o % 200 - 100);
      if (o == 70) {
        ASSERT_TRUE(std::isnan(got));
      } else {
        ASSERT_NEAR(got / unit, sums[at].exact / unit, 0.05) << o;
      }
    }
  }
}

// They have one range of inputs, so a ring goes round.
double Activated(Gate gate, double x) {
  if (gate == Gate::kSilu) return x / (1 + std::exp(-x));
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                        (x + 0.044715 * x * x * x)));
}

TEST_P(ProductTest, GatesInPairs) {
  for (Weights type : kAllWeights) {
    for (const auto [outputs, inputs, rows] : {std::array{256, 192, 3},
                                               {256, 192, 20},
                                               {256, 192, 130},
                                               {256, 192, 300},
                                               {128, 2560, 15},
                                               {128, 2560, 20},
                                               {384, 1536, 200}}) {
      const Problem p(type, outputs, inputs, rows, 6);
      ComputeDevice& device = Device();
      OnDevice there(device, p);
      const DeviceArray<unsigned char> gated = NanArray<unsigned char>(
          device, static_cast<int64_t>(ActivationBytes(rows, p.outputs / 2)));
      there.args.gated = gated.data();
      there.args.gate = rows % 2 == 0 ? Gate::kSilu : Gate::kGeluTanh;
      device.Launch(there.args);
      const std::vector<unsigned char> out = ValuesOf(device, gated);
      const std::vector<Problem::Sum> sums = p.Sums();
      for (int row = 0; row < rows; ++row) {
        for (int o = 0; o < p.outputs / 2; ++o) {
          const int64_t first = int64_t{row} * p.outputs;
          const Problem::Sum& gate = sums[first + GatePlace(o)];
          const Problem::Sum& value = sums[first + GatedValuePlace(o)];
          const double wanted =
              Activated(there.args.gate, gate.exact) * value.exact;
          const double got =
              Bf16ToFloat(ActivationAt(out, rows, p.outputs / 2, row, o));
          const double slack = 1.2 * gate.slack * std::abs(value.exact) +
                               value.slack * std::abs(gate.exact);
          ASSERT_NEAR(got, wanted, std::abs(wanted) * 0.005 + slack + 1e-5);
        }
      }
    }
  }
}

TEST(ProductShapeTest, FillsTheMultiprocessors) {
  // Qwen3-8B: qkv, o, down, head.
  EXPECT_EQ(ProductSplits(6144, 4096), 4);
  EXPECT_EQ(ProductSplits(4096, 4096), 4);
  EXPECT_EQ(ProductSplits(4096, 12288), 4);
  EXPECT_EQ(ProductSplits(151936, 4096), 1);
  // Each part has at least four tiles of inputs.
  EXPECT_EQ(ProductSplits(64, 64), 1);
  EXPECT_EQ(ProductSplits(64, 1024), 4);
}

}  // namespace
}  // namespace espalier::cuda::cuda_product_test
