#include <algorithm>
#include <vector>

#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class ProductTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(ProductTest);

struct Problem {
  int outputs, inputs, rows;
  std::vector<uint16_t> w, x;

  Problem(int o, int i, int r, uint64_t seed) : outputs(o), inputs(i), rows(r) {
    Random random(seed);
    w = random.Bf16s(int64_t{o} * i);
    x = random.Bf16s(int64_t{r} * i);
  }
  // The first rows alone.
  Problem First(int count) const {
    Problem part = *this;
    part.rows = count;
    part.x.resize(int64_t{count} * inputs);
    return part;
  }
  double Exact(int row, int output) const {
    double sum = 0;
    for (int i = 0; i < inputs; ++i) {
      sum += double{Bf16ToFloat(w[int64_t{output} * inputs + i])} *
             Bf16ToFloat(x[int64_t{row} * inputs + i]);
    }
    return sum;
  }
};

// [rows, outputs], parts added in their order.
std::vector<float> Multiply(ComputeDevice& device, const Problem& p) {
  const DeviceArray<unsigned char> weights =
      ArrayOf(device, PackWeights(p.w, p.outputs, p.inputs));
  const DeviceArray<unsigned char> rows =
      ArrayOf(device, PackActivations(p.x, p.rows, p.inputs));
  const int splits = ProductSplits(p.outputs, p.inputs);
  const int64_t padded = PaddedRows(p.rows);
  const DeviceArray<float> parts =
      NanArray<float>(device, splits * padded * p.outputs);
  device.Launch(ProductArgs{.weights = weights.data(),
                            .activations = rows.data(),
                            .rows = p.rows,
                            .inputs = p.inputs,
                            .outputs = p.outputs,
                            .parts = parts.data()});
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
  for (int row = 0; row < p.rows; ++row) {
    for (int o = 0; o < p.outputs; ++o) {
      error.Add(out[int64_t{row} * p.outputs + o], p.Exact(row, o));
    }
  }
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
    SCOPED_TRACE(testing::Message()
                 << outputs << " x " << inputs << ", " << rows << " rows");
    const Problem problem(outputs, inputs, rows, 1);
    EXPECT_LT(Error(problem, Multiply(Device(), problem)), 3e-6);
  }
}

TEST_P(ProductTest, TakesBlocksOfRows) {
  for (int rows : {100, 200, 300}) {
    const Problem problem(128, 128, rows, 2);
    EXPECT_LT(Error(problem, Multiply(Device(), problem)), 3e-6) << rows;
  }
}

TEST_P(ProductTest, BitsDependOnTheRowAlone) {
  for (const auto [outputs, inputs] : {std::array{192, 576}, {256, 320}}) {
    const Problem all(outputs, inputs, 260, 3);
    const std::vector<float> expected = Multiply(Device(), all);
    for (int rows : {1, 16, 17, 33, 64, 65, 128, 129, 256}) {
      std::vector<float> first(expected.begin(),
                               expected.begin() + int64_t{rows} * outputs);
      EXPECT_TRUE(SameBits(Multiply(Device(rows), all.First(rows)), first))
          << outputs << " outputs, " << rows << " rows";
    }
  }
}

TEST_P(ProductTest, BitsDoNotDependOnTheSchedule) {
  const Problem problem(192, 2048, 40, 4);
  const std::vector<float> expected = Multiply(Device(1), problem);
  for (uint64_t seed = 2; seed < 8; ++seed) {
    EXPECT_TRUE(SameBits(Multiply(Device(seed), problem), expected)) << seed;
  }
}

// One hot inputs: where every weight lies, exactly.
TEST_P(ProductTest, ReadsEveryWeightFromItsPlace) {
  Problem problem(320, 128, 128, 5);
  std::fill(problem.x.begin(), problem.x.end(), 0);
  for (int row = 0; row < problem.rows; ++row) {
    problem.x[row * problem.inputs + row] = FloatToBf16(1);
  }
  const std::vector<float> out = Multiply(Device(), problem);
  for (int row = 0; row < problem.rows; ++row) {
    for (int o = 0; o < problem.outputs; ++o) {
      ASSERT_EQ(out[row * problem.outputs + o],
                Bf16ToFloat(problem.w[o * problem.inputs + row]));
    }
  }
}

TEST_P(ProductTest, GatesInPairs) {
  for (int rows : {3, 20, 130}) {
    const Problem p(256, 192, rows, 6);
    ComputeDevice& device = Device();
    const DeviceArray<unsigned char> weights =
        ArrayOf(device, PackWeights(p.w, p.outputs, p.inputs));
    const DeviceArray<unsigned char> x =
        ArrayOf(device, PackActivations(p.x, p.rows, p.inputs));
    const DeviceArray<unsigned char> gated = NanArray<unsigned char>(
        device, static_cast<int64_t>(ActivationBytes(rows, p.outputs / 2)));
    device.Launch(ProductArgs{.weights = weights.data(),
                              .activations = x.data(),
                              .rows = rows,
                              .inputs = p.inputs,
                              .outputs = p.outputs,
                              .gated = gated.data()});
    const std::vector<unsigned char> out = ValuesOf(device, gated);
    for (int row = 0; row < rows; ++row) {
      for (int o = 0; o < p.outputs / 2; ++o) {
        const double gate = p.Exact(row, GatePlace(o));
        const double value = p.Exact(row, GatedValuePlace(o));
        const double wanted = gate / (1 + std::exp(-gate)) * value;
        const double got =
            Bf16ToFloat(ActivationAt(out, rows, p.outputs / 2, row, o));
        ASSERT_NEAR(got, wanted, std::abs(wanted) * 0.005 + 1e-5);
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
  // At least four tiles of inputs each.
  EXPECT_EQ(ProductSplits(64, 64), 1);
  EXPECT_EQ(ProductSplits(64, 1024), 4);
}

}  // namespace
}  // namespace espalier::cuda
