#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/nn/packed_matrix.h"
#include "gmock/gmock.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

// A backend, and the operand that rows become where weights are bf16.
struct LinearCase {
  const Kernels* kernels = nullptr;
  OperandType operand = OperandType::kFloat32;
};

std::vector<LinearCase> LinearCases() {
  std::vector<LinearCase> cases;
  for (const Kernels* kernels : BackendsAndAmxModel()) {
    cases.push_back({kernels, kernels->exact_operand});
    if (kernels->fast_operand == kernels->exact_operand) continue;
    cases.push_back({kernels, kernels->fast_operand});
  }
  return cases;
}

std::string LinearCaseName(const ::testing::TestParamInfo<LinearCase>& info) {
  const bool fast = info.param.operand == info.param.kernels->fast_operand;
  return IdentifierOf(info.param.kernels->name) + (fast ? "Fast" : "");
}

class LinearTest : public KernelValues,
                   public ::testing::TestWithParam<LinearCase> {
 protected:
  const Kernels& kernels() const { return *GetParam().kernels; }
  OperandType OperandOf(const PackedMatrix& weights) const {
    switch (weights.view().type) {
      case WeightType::kFloat32:
        return OperandType::kFloat32;
      case WeightType::kBlocks:
        return OperandType::kBlocks;
      case WeightType::kBf16:
        break;
    }
    return GetParam().operand;
  }
  // Returns the types that the backend multiplies: blocks are not the tiles'
  // work.
  std::vector<WeightType> WeightTypes() const {
    std::vector<WeightType> types = {WeightType::kBf16, WeightType::kFloat32};
    if (&kernels() != &AmxModelKernels()) types.push_back(WeightType::kBlocks);
    return types;
  }
  // Bound of a product's error, for a sum of products of this size.
  double Error(const PackedMatrix& weights, double size) const {
    return (OperandError(OperandOf(weights)) + 1e-6) * size + 1e-7;
  }

  PackedMatrix Pack(const std::vector<std::vector<float>>& parts,
                    const PackedMatrix::Spec& spec) {
    std::vector<WeightSource> sources;
    for (const std::vector<float>& part : parts) {
      sources.push_back(
          {.format = WeightSource::Format::kFloat32,
           .data = reinterpret_cast<const std::byte*>(part.data()),
           .outputs = static_cast<int64_t>(part.size()) / spec.inputs});
    }
    return PackedMatrix::Pack(sources, spec, arena_, pool_);
  }

  // [rows][out_columns]; `start` is what out holds before.
  std::vector<float> Run(const PackedMatrix& weights, LinearArgs args,
                         const std::vector<float>& x, float start = 0) {
    args.weights = weights.view();
    args.panel_end = weights.panels();
    const OperandRows rows(kernels(), OperandOf(weights), x, weights.inputs());
    args = rows.In(args);
    args.out_columns = args.out_stride = weights.out_columns();
    args.gated = weights.gated();
    std::vector<float> out(args.rows * args.out_columns, start);
    args.out = out.data();
    kernels().linear(args);
    return out;
  }

  // Sum of products and sum of their sizes, which bounds the rounding.
  static std::pair<double, double> Dot(const float* a, const float* b,
                                       int64_t size) {
    double sum = 0, size_sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      sum += double{a[i]} * b[i];
      size_sum += std::abs(double{a[i]} * b[i]);
    }
    return {sum, size_sum};
  }

  // Compares the product of `weights`, which are `w` [outputs, inputs], and
  // random rows with its definition.
  void ExpectProduct(const PackedMatrix& weights, const std::vector<float>& w,
                     int64_t rows) {
    const int64_t inputs = weights.inputs(), outputs = weights.out_columns();
    const std::vector<float> x = Random(rows * inputs);
    const std::vector<float> y = Run(weights, {}, x);
    for (int64_t i = 0; i < rows * outputs; ++i) {
      const auto [sum, size] =
          Dot(&x[i / outputs * inputs], &w[i % outputs * inputs], inputs);
      ASSERT_NEAR(y[i], sum, Error(weights, size))
          << rows << " x " << inputs << " x " << outputs << " at " << i;
    }
  }

  HugePageArena arena_;
  ThreadPool pool_{{.threads = 1}};
};
INSTANTIATE_TEST_SUITE_P(Cases, LinearTest, ::testing::ValuesIn(LinearCases()),
                         LinearCaseName);

TEST_P(LinearTest, AgreesWithTheSumInFloat64OnOddShapes) {
  for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
    for (int64_t inputs : {1, 2, 3, 31, 64, 577}) {
      for (int64_t outputs : {1, 16, 31, 32, 33, 95}) {
        const std::vector<float> w = RandomBf16(inputs * outputs);
        const PackedMatrix packed = Pack({w}, {.inputs = inputs, .type = type});
        for (int64_t rows : {1, 2, 3, 6, 7, 13, 70}) {
          ExpectProduct(packed, w, rows);
        }
      }
    }
  }
}

// What batch invariance rests on: bit for bit, in any company.
TEST_P(LinearTest, RowIsTheSameWhateverTheRowsAndPanelsOfTheCall) {
  constexpr int64_t kInputs = 131, kOutputs = 200, kRows = 40;
  for (WeightType type : WeightTypes()) {
    const PackedMatrix packed =
        Pack({Random(kInputs * kOutputs)}, {.inputs = kInputs, .type = type});
    const std::vector<float> x = Random(kRows * kInputs);
    std::vector<float> expected;
    for (int64_t row = 0; row < kRows; ++row) {
      const std::vector<float> one =
          Run(packed, {}, {&x[row * kInputs], &x[row * kInputs] + kInputs});
      expected.insert(expected.end(), one.begin(), one.end());
    }
    for (int64_t rows = 1; rows <= kRows; ++rows) {
      const std::vector<float> y =
          Run(packed, {}, {x.begin(), x.begin() + rows * kInputs});
      ASSERT_TRUE(std::equal(y.begin(), y.end(), expected.begin())) << rows;
    }
    std::vector<float> by_panels(kRows * kOutputs);
    const OperandRows rows(kernels(), OperandOf(packed), x, kInputs);
    for (int64_t panel : {6, 2, 0, 1, 5, 3, 4}) {
      kernels().linear(rows.In({.weights = packed.view(),
                                .panel_begin = panel,
                                .panel_end = panel + 1,
                                .out = by_panels.data(),
                                .out_stride = kOutputs,
                                .out_columns = kOutputs}));
    }
    EXPECT_EQ(by_panels, expected);
  }
}

TEST_P(LinearTest, AddsBiasThenActivatesThenAccumulates) {
  constexpr int64_t kInputs = 20, kOutputs = 45, kRows = 9;
  const std::vector<float> w = RandomBf16(kInputs * kOutputs);
  const std::vector<float> x = Random(kRows * kInputs), b = Random(kOutputs);
  const std::vector<float> bias = PackBias({b}, /*gated=*/false);
  const PackedMatrix packed = Pack({w}, {.inputs = kInputs});
  for (Activation activation : {Activation::kNone, Activation::kSilu,
                                Activation::kGelu, Activation::kGeluTanh}) {
    const std::vector<float> y =
        Run(packed,
            {.bias = bias.data(), .activation = activation, .accumulate = true},
            x, /*start=*/3);
    for (int64_t i = 0; i < kRows * kOutputs; ++i) {
      const int64_t output = i % kOutputs;
      const auto [sum, size] =
          Dot(&x[i / kOutputs * kInputs], &w[output * kInputs], kInputs);
      ASSERT_NEAR(y[i], 3 + Activated(activation, sum + b[output]),
                  5e-6 + 2 * Error(packed, size));
    }
  }
}

TEST_P(LinearTest, GatedProductMultipliesActivatedGatesWithValues) {
  constexpr int64_t kInputs = 33, kRows = 8;
  for (int64_t ffn : {1, 15, 16, 40}) {
    const std::vector<float> gate = RandomBf16(kInputs * ffn);
    const std::vector<float> value = RandomBf16(kInputs * ffn);
    const std::vector<float> gate_bias = Random(ffn), value_bias = Random(ffn);
    const std::vector<float> bias =
        PackBias({gate_bias, value_bias}, /*gated=*/true);
    const PackedMatrix packed =
        Pack({gate, value}, {.inputs = kInputs, .gated = true});
    EXPECT_EQ(packed.out_columns(), ffn);
    const std::vector<float> x = Random(kRows * kInputs);
    const std::vector<float> y =
        Run(packed, {.bias = bias.data(), .activation = Activation::kSilu}, x);
    for (int64_t i = 0; i < kRows * ffn; ++i) {
      const float* row = &x[i / ffn * kInputs];
      const int64_t j = i % ffn;
      const auto [g, g_size] = Dot(row, &gate[j * kInputs], kInputs);
      const auto [v, v_size] = Dot(row, &value[j * kInputs], kInputs);
      const double a = Activated(Activation::kSilu, g + gate_bias[j]);
      const double b = v + value_bias[j];
      ASSERT_NEAR(y[i], a * b,
                  2e-5 + 2 * (Error(packed, g_size) * std::abs(b) +
                              Error(packed, v_size) * std::abs(a)));
    }
  }
}

// From what is hardly changed to what is wholly cut.
TEST_P(LinearTest, SoftcapsBoundTheOutputs) {
  constexpr int64_t kOutputs = 45;
  const PackedMatrix packed =
      Pack({std::vector<float>(kOutputs, 1)}, {.inputs = 1});
  for (float x : {0.0f, 0x1p-20f, 0.0625f, 1.5f, 3.0f, 14.0f, 200.0f, 1e30f}) {
    for (float sign : {1.0f, -1.0f}) {
      const double expected = 3 * std::tanh(sign * double{x} / 3);
      for (float y : Run(packed, {.softcap = 3}, {sign * x})) {
        ASSERT_NEAR(y, expected, 6e-7 * std::abs(expected)) << sign * x;
        ASSERT_LE(std::abs(y), 3);
      }
    }
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Run(packed, {.softcap = 3}, {kNan})[0]));
}

TEST_P(LinearTest, WritesNothingBesideItsColumns) {
  const PackedMatrix packed = Pack({Random(5 * 33)}, {.inputs = 5});
  const std::vector<float> x = Random(2 * 5);
  std::vector<float> out(2 * 40, -1);
  const OperandRows rows(kernels(), OperandOf(packed), x, 5);
  kernels().linear(rows.In({.weights = packed.view(),
                            .panel_end = 2,
                            .out = out.data(),
                            .out_stride = 40,
                            .out_columns = 33}));
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 33; i < 40; ++i) EXPECT_EQ(out[row * 40 + i], -1);
    EXPECT_NE(out[row * 40 + 32], -1);
  }
}

TEST_P(LinearTest, ActivationsStayFiniteAtTheEnds) {
  const std::vector<float> one = {1};
  const PackedMatrix packed = Pack({one}, {.inputs = 1});
  for (float x :
       {0.0f, -0.0f, 1e-30f, 30.0f, -30.0f, 100.0f, -100.0f, 1e10f, -1e10f}) {
    for (Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
      const float y = Run(packed, {.activation = activation}, {x})[0];
      const double expected = Activated(activation, x);
      // x is rounded; the activations' slope is at most 1.13.
      EXPECT_NEAR(y, expected, 1e-6 + 2 * Error(packed, std::abs(x))) << x;
    }
  }
}

TEST_P(LinearTest, NotANumberReachesItsOwnRowOnly) {
  const std::vector<float> w = Random(8 * 32);
  for (WeightType type : WeightTypes()) {
    const PackedMatrix packed = Pack({w}, {.inputs = 8, .type = type});
    std::vector<float> x = Random(5 * 8);
    const std::vector<float> clean =
        Run(packed, {.activation = Activation::kSilu}, x);
    x[2 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> y =
        Run(packed, {.activation = Activation::kSilu}, x);
    for (int64_t i = 0; i < 5 * 32; ++i) {
      if (i / 32 == 2) {
        EXPECT_TRUE(std::isnan(y[i]));
      } else {
        EXPECT_EQ(y[i], clean[i]);
      }
    }
  }
}

TEST(CpuBackendTest, NamesAreFoundAndUnknownOnesListTheUsable) {
  EXPECT_STREQ((*FindBackend("auto"))->name, UsableBackends().front()->name);
  EXPECT_STREQ((*FindBackend("portable"))->name, "portable");
  const auto unknown = FindBackend("mmx");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), ::testing::HasSubstr("portable"));
}

}  // namespace
}  // namespace espalier::nn
