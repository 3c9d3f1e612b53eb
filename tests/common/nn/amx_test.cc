// The AMX kernel on a software model of the tiles: its sums and its invariance
// on any CPU, and where there are tiles, that they give the model's bits.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/nn/packed_matrix.h"
#include "tests/common/nn/amx_model.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

// What the kernel's epilogue needs of a vector.
struct OneLane {
  using Reg = float;
  static constexpr int64_t kLanes = 1;
  static Reg Set(float x) { return x; }
  static Reg Load(const float* p) { return *p; }
  static void Store(float* p, Reg x) { *p = x; }
  static Reg Add(Reg a, Reg b) { return a + b; }
  static Reg Sub(Reg a, Reg b) { return a - b; }
  static Reg Mul(Reg a, Reg b) { return a * b; }
  static Reg Div(Reg a, Reg b) { return a / b; }
  static Reg Min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg Max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg MulAdd(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg Round(Reg x) { return std::nearbyint(x); }
  static Reg Pow2(Reg n) { return std::exp2(n); }
};

void PrepareModel(const PrepareArgs& a) {
  const int64_t padded = PaddedInputs(a.inputs);
  uint16_t* const out = static_cast<uint16_t*>(a.out);
  std::fill_n(out, OperandBytes(a.type, a.inputs) / 2, uint16_t{0});
  for (int64_t i = 0; i < a.inputs; ++i) {
    out[i] = FloatToBf16(a.x[i]);
    if (a.type == OperandType::kBf16) continue;
    out[padded + i] = FloatToBf16(a.x[i] - Bf16ToFloat(out[i]));
  }
}

const Kernels kModel = {.name = "amx-model",
                        .exact_operand = OperandType::kSplitBf16,
                        .fast_operand = OperandType::kBf16,
                        .prepare = PrepareModel,
                        .linear = AmxLinear<OneLane, ModelTiles>};

const Kernels* AmxOfThisCpu() {
  for (const Kernels* kernels : UsableBackends()) {
    if (std::string(kernels->name) == "amx-bf16") return kernels;
  }
  return nullptr;
}

class AmxTest : public KernelValues,
                public ::testing::TestWithParam<OperandType> {
 protected:
  PackedMatrix Pack(const std::vector<float>& weights, int64_t inputs) {
    return PackedMatrix::Pack(
        {{.format = WeightSource::Format::kFloat32,
          .data = reinterpret_cast<const std::byte*>(weights.data()),
          .outputs = static_cast<int64_t>(weights.size()) / inputs}},
        {.inputs = inputs}, arena_, pool_);
  }

  std::vector<float> Run(const Kernels& kernels, const PackedMatrix& weights,
                         const OperandRows& rows, int64_t num_rows) {
    std::vector<float> out(num_rows * weights.out_columns());
    kernels.linear(rows.In({.weights = weights.view(),
                            .panel_end = weights.panels(),
                            .out = out.data(),
                            .out_stride = weights.out_columns(),
                            .out_columns = weights.out_columns()}));
    return out;
  }

  HugePageArena arena_;
  ThreadPool pool_{{.threads = 1}};
};

INSTANTIATE_TEST_SUITE_P(Operands, AmxTest,
                         ::testing::Values(OperandType::kBf16,
                                           OperandType::kSplitBf16),
                         [](const auto& test) {
                           return test.param == OperandType::kBf16 ? "Bf16"
                                                                   : "Split";
                         });

TEST_P(AmxTest, ModelAgreesWithTheSumInFloat64) {
  constexpr int64_t kInputs = 77, kOutputs = 45;
  const std::vector<float> w = RandomBf16(kInputs * kOutputs);
  const PackedMatrix packed = Pack(w, kInputs);
  for (int64_t num_rows : {1, 2, 15, 16, 17, 31, 32, 33, 50}) {
    const std::vector<float> x = Random(num_rows * kInputs);
    const OperandRows rows(kModel, GetParam(), x, kInputs);
    const std::vector<float> y = Run(kModel, packed, rows, num_rows);
    for (int64_t i = 0; i < num_rows * kOutputs; ++i) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < kInputs; ++k) {
        const double product = double{x[i / kOutputs * kInputs + k]} *
                               w[i % kOutputs * kInputs + k];
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(y[i], sum, (OperandError(GetParam()) + 1e-6) * size)
          << num_rows;
    }
  }
}

TEST_P(AmxTest, RowOfTheModelIsTheSameInAnyCompany) {
  constexpr int64_t kInputs = 96, kOutputs = 64, kRows = 50;
  const PackedMatrix packed = Pack(RandomBf16(kInputs * kOutputs), kInputs);
  const std::vector<float> x = Random(kRows * kInputs);
  const std::vector<float> all =
      Run(kModel, packed, OperandRows(kModel, GetParam(), x, kInputs), kRows);
  for (int64_t first = 0; first < kRows; first += 7) {
    for (int64_t size : {1, 2, 16, 17, 40}) {
      const int64_t num_rows = std::min(size, kRows - first);
      const std::vector<float> part(&x[first * kInputs],
                                    &x[first * kInputs] + num_rows * kInputs);
      const std::vector<float> y =
          Run(kModel, packed, OperandRows(kModel, GetParam(), part, kInputs),
              num_rows);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), &all[first * kOutputs]))
          << first << " " << num_rows;
    }
  }
}

TEST_P(AmxTest, TilesOfThisCpuGiveTheBitsOfTheModel) {
  const Kernels* const cpu = AmxOfThisCpu();
  if (cpu == nullptr) GTEST_SKIP() << "this CPU has no AMX";
  constexpr int64_t kInputs = 200, kOutputs = 70;
  const PackedMatrix packed = Pack(Random(kInputs * kOutputs), kInputs);
  for (float scale : {1.0f, 1e-19f, 1e18f}) {
    for (int64_t num_rows : {1, 16, 23, 40}) {
      const std::vector<float> x = Random(num_rows * kInputs, scale);
      const OperandRows rows(*cpu, GetParam(), x, kInputs);
      EXPECT_EQ(Run(*cpu, packed, rows, num_rows),
                Run(kModel, packed, rows, num_rows))
          << num_rows << " rows, scale " << scale;
    }
  }
}

}  // namespace
}  // namespace espalier::nn
