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

class LinearTest : public KernelTest {
 protected:
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
    args.rows = static_cast<int64_t>(x.size()) / weights.inputs();
    args.x = x.data();
    args.x_stride = weights.inputs();
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

  HugePageArena arena_;
  ThreadPool pool_{{.threads = 1}};
};
ESPALIER_TEST_ALL_BACKENDS(LinearTest);

TEST_P(LinearTest, AgreesWithTheSumInFloat64OnOddShapes) {
  for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
    for (int64_t inputs : {1, 2, 3, 31, 64, 577}) {
      for (int64_t outputs : {1, 16, 31, 32, 33, 95}) {
        const std::vector<float> w = RandomBf16(inputs * outputs);
        const PackedMatrix packed = Pack({w}, {.inputs = inputs, .type = type});
        for (int64_t rows : {1, 2, 3, 6, 7, 13, 70}) {
          const std::vector<float> x = Random(rows * inputs);
          const std::vector<float> y = Run(packed, {}, x);
          for (int64_t i = 0; i < rows * outputs; ++i) {
            const auto [sum, size] =
                Dot(&x[i / outputs * inputs], &w[i % outputs * inputs], inputs);
            ASSERT_NEAR(y[i], sum, 1e-6 * size + 1e-7)
                << rows << " x " << inputs << " x " << outputs << " at " << i;
          }
        }
      }
    }
  }
}

// What batch invariance rests on: bit for bit, in any company.
TEST_P(LinearTest, RowIsTheSameWhateverTheRowsAndPanelsOfTheCall) {
  constexpr int64_t kInputs = 131, kOutputs = 200, kRows = 40;
  for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
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
    for (int64_t panel : {6, 2, 0, 1, 5, 3, 4}) {
      kernels().linear({.weights = packed.view(),
                        .panel_begin = panel,
                        .panel_end = panel + 1,
                        .rows = kRows,
                        .x = x.data(),
                        .x_stride = kInputs,
                        .out = by_panels.data(),
                        .out_stride = kOutputs,
                        .out_columns = kOutputs});
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
      const double sum =
          Dot(&x[i / kOutputs * kInputs], &w[output * kInputs], kInputs).first;
      ASSERT_NEAR(y[i], 3 + Activated(activation, sum + b[output]), 5e-6);
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
      const double g = Dot(row, &gate[j * kInputs], kInputs).first;
      const double v = Dot(row, &value[j * kInputs], kInputs).first;
      ASSERT_NEAR(
          y[i],
          Activated(Activation::kSilu, g + gate_bias[j]) * (v + value_bias[j]),
          2e-5);
    }
  }
}

TEST_P(LinearTest, WritesNothingBesideItsColumns) {
  const PackedMatrix packed = Pack({Random(5 * 33)}, {.inputs = 5});
  const std::vector<float> x = Random(2 * 5);
  std::vector<float> out(2 * 40, -1);
  kernels().linear({.weights = packed.view(),
                    .panel_end = 2,
                    .rows = 2,
                    .x = x.data(),
                    .x_stride = 5,
                    .out = out.data(),
                    .out_stride = 40,
                    .out_columns = 33});
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
      EXPECT_NEAR(y, expected, 1e-6 + 1e-6 * std::abs(expected)) << x;
    }
  }
}

TEST_P(LinearTest, NotANumberReachesItsOwnRowOnly) {
  const std::vector<float> w = Random(8 * 32);
  const PackedMatrix packed = Pack({w}, {.inputs = 8});
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

TEST(CpuBackendTest, NamesAreFoundAndUnknownOnesListTheUsable) {
  EXPECT_STREQ((*FindBackend("auto"))->name, UsableBackends().front()->name);
  EXPECT_STREQ((*FindBackend("portable"))->name, "portable");
  const auto unknown = FindBackend("mmx");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), ::testing::HasSubstr("portable"));
}

}  // namespace
}  // namespace espalier::nn
