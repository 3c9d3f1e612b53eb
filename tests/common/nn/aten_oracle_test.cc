// Every other operator of every backend against libtorch's.

#include "tests/common/nn/aten_oracle.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/nn/packed_matrix.h"

namespace espalier::nn {
namespace {

// The error of an activation, beside that of its argument.
constexpr double kActivationError = 1e-6;
constexpr double kMaxSlope = 1.2;  // of any activation

// How the rows of a product may be handed to a backend.
std::vector<OperandType> OperandsOf(const Kernels& kernels, WeightType type) {
  if (type == WeightType::kFloat32) return {OperandType::kFloat32};
  std::vector<OperandType> operands = {kernels.exact_operand};
  if (kernels.fast_operand != kernels.exact_operand) {
    operands.push_back(kernels.fast_operand);
  }
  return operands;
}

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x, "none");
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
  }
  return {};
}

// ---- linear

struct Product {
  int64_t rows = 1;
  int64_t inputs = 1;
  int64_t outputs = 1;  // columns of the result
  WeightType type = WeightType::kBf16;
  Activation activation = Activation::kNone;
  bool gated = false;
  bool bias = false;
  bool accumulate = false;
};

std::string Name(const Product& p) {
  return absl::StrCat(p.rows, " x ", p.inputs, " x ", p.outputs, ", type ",
                      static_cast<int>(p.type), ", activation ",
                      static_cast<int>(p.activation), p.gated ? ", gated" : "",
                      p.bias ? ", bias" : "",
                      p.accumulate ? ", accumulate" : "");
}

class AtenLinearTest : public AtenOracleTest {
 protected:
  struct Data {
    std::vector<float> x;                     // [rows, inputs]
    std::vector<std::vector<float>> weights;  // parts, [outputs, inputs]
    std::vector<std::vector<float>> biases;   // parts, [outputs]
    std::vector<float> start;                 // [rows, outputs]
  };

  Data Draw(const Product& p) {
    Data data = {.x = Nasty(p.rows * p.inputs),
                 .start = Nasty(p.rows * p.outputs)};
    for (int part = 0; part < (p.gated ? 2 : 1); ++part) {
      std::vector<float> weights = Nasty(p.outputs * p.inputs);
      // So that packing rounds nothing.
      for (float& w : weights) w = Bf16ToFloat(FloatToBf16(w));
      data.weights.push_back(std::move(weights));
      data.biases.push_back(p.bias ? Nasty(p.outputs)
                                   : std::vector<float>(p.outputs));
    }
    return data;
  }

  // Runs the product. This is the one place that calls the product.
  std::vector<float> Run(const Product& p, const Data& data,
                         OperandType operand) const {
    HugePageArena arena;
    ThreadPool pool({.threads = 1});
    std::vector<WeightSource> sources;
    for (const std::vector<float>& weights : data.weights) {
      sources.push_back(
          {.format = WeightSource::Format::kFloat32,
           .data = reinterpret_cast<const std::byte*>(weights.data()),
           .outputs = p.outputs});
    }
    const PackedMatrix matrix = PackedMatrix::Pack(
        sources, {.inputs = p.inputs, .type = p.type, .gated = p.gated}, arena,
        pool);
    const std::vector<float> bias = PackBias(data.biases, p.gated);
    std::vector<float> out = data.start;
    const OperandRows rows(kernels(), operand, data.x, p.inputs);
    kernels().linear(rows.In({.weights = matrix.view(),
                              .panel_begin = 0,
                              .panel_end = matrix.panels(),
                              .bias = p.bias ? bias.data() : nullptr,
                              .out = out.data(),
                              .out_stride = p.outputs,
                              .out_columns = p.outputs,
                              .activation = p.activation,
                              .gated = p.gated,
                              .accumulate = p.accumulate}));
    return out;
  }

  // W x + bias of one part.
  static at::Tensor Part(const Product& p, const Data& data, size_t part,
                         at::ScalarType dtype) {
    return at::linear(
        ToTensor(data.x, {p.rows, p.inputs}, dtype),
        ToTensor(data.weights[part], {p.outputs, p.inputs}, dtype),
        ToTensor(data.biases[part], {p.outputs}, dtype));
  }

  static at::Tensor Reference(const Product& p, const Data& data,
                              at::ScalarType dtype) {
    at::Tensor y = Activate(Part(p, data, 0, dtype), p.activation);
    if (p.gated) y = y * Part(p, data, 1, dtype);
    if (p.accumulate) {
      y = y + ToTensor(data.start, {p.rows, p.outputs}, dtype);
    }
    return y;
  }

  // Returns the bound for one part: each of the sum's terms is rounded with the
  // operand, and at every step of the sum; a split operand takes two steps.
  static at::Tensor PartBound(const Product& p, const Data& data, size_t part,
                              OperandType operand) {
    const at::Tensor size = at::linear(
        ToTensor(data.x, {p.rows, p.inputs}, at::kDouble).abs(),
        ToTensor(data.weights[part], {p.outputs, p.inputs}, at::kDouble).abs(),
        ToTensor(data.biases[part], {p.outputs}, at::kDouble).abs());
    return size * (OperandError(operand) +
                   static_cast<double>(2 * p.inputs + 1) * kUnit);
  }

  static at::Tensor Bound(const Product& p, const Data& data,
                          OperandType operand) {
    const at::Tensor z = Part(p, data, 0, at::kDouble);
    at::Tensor y = Activate(z, p.activation);
    at::Tensor bound = PartBound(p, data, 0, operand);
    if (p.activation != Activation::kNone) {
      bound = kMaxSlope * bound + kActivationError * (1 + y.abs());
    }
    if (p.gated) {
      const at::Tensor value = Part(p, data, 1, at::kDouble);
      const at::Tensor value_bound = PartBound(p, data, 1, operand);
      bound = bound * (value.abs() + value_bound) + y.abs() * value_bound;
      y = y * value;
    }
    bound = bound + 2 * kUnit * y.abs();
    if (!p.accumulate) return bound;
    const at::Tensor start =
        ToTensor(data.start, {p.rows, p.outputs}, at::kDouble);
    return bound + kUnit * (y.abs() + start.abs());
  }

  void Check(const Product& p) {
    SCOPED_TRACE(Name(p));
    const Data data = Draw(p);
    for (OperandType operand : OperandsOf(kernels(), p.type)) {
      SCOPED_TRACE(absl::StrCat("operand ", static_cast<int>(operand)));
      ExpectNear(
          ToTensor(Run(p, data, operand), {p.rows, p.outputs}, at::kFloat),
          Bound(p, data, operand),
          [&](at::ScalarType dtype) { return Reference(p, data, dtype); });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AtenLinearTest,
                         ::testing::ValuesIn(UsableBackends()), BackendName);

TEST_P(AtenLinearTest, EveryNumberOfRows) {
  for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
      Check({.rows = rows, .inputs = 77, .outputs = 70, .type = type});
      Check({.rows = rows, .inputs = 64, .outputs = 32, .type = type});
    }
  }
}

TEST_P(AtenLinearTest, OddInputsAndOutputs) {
  for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
    for (int64_t inputs : {1, 2, 3, 15, 31, 32, 33, 63, 65, 1537}) {
      for (int64_t outputs : {1, 15, 17, 31, 33, 95}) {
        for (int64_t rows : {1, 2, 7, 17}) {
          Check({.rows = rows,
                 .inputs = inputs,
                 .outputs = outputs,
                 .type = type});
        }
      }
    }
  }
}

TEST_P(AtenLinearTest, EveryEpilogue) {
  for (Activation activation : {Activation::kNone, Activation::kSilu,
                                Activation::kGelu, Activation::kGeluTanh}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (WeightType type : {WeightType::kBf16, WeightType::kFloat32}) {
        for (int64_t rows : {1, 3, 6, 13, 32}) {
          for (int64_t outputs : {1, 15, 16, 40, 129}) {
            Check({.rows = rows,
                   .inputs = 35,
                   .outputs = outputs,
                   .type = type,
                   .activation = activation,
                   .gated = (bits & 1) != 0,
                   .bias = (bits & 2) != 0,
                   .accumulate = (bits & 4) != 0});
          }
        }
      }
    }
  }
}

// ---- normalize

class AtenNormTest : public AtenOracleTest {
 protected:
  struct Data {
    std::vector<float> x, weight, bias;  // [size]
    double epsilon = 1e-5;
    bool layer_norm = false;
  };

  static at::Tensor Reference(const Data& data, at::ScalarType dtype) {
    const int64_t size = static_cast<int64_t>(data.x.size());
    const at::Tensor x = ToTensor(data.x, {size}, dtype);
    const at::Tensor weight = ToTensor(data.weight, {size}, dtype);
    if (!data.layer_norm) {
      return at::rms_norm(x, {size}, weight, data.epsilon);
    }
    return at::layer_norm(x, {size}, weight, ToTensor(data.bias, {size}, dtype),
                          data.epsilon);
  }

  // The mean is off by size * kUnit of the mean absolute value, all else by
  // size * kUnit of itself.
  static at::Tensor Bound(const Data& data) {
    const int64_t size = static_cast<int64_t>(data.x.size());
    const double unit = static_cast<double>(size + 16) * kUnit;
    const at::Tensor x = ToTensor(data.x, {size}, at::kDouble);
    const at::Tensor weight = ToTensor(data.weight, {size}, at::kDouble).abs();
    const at::Tensor centered = data.layer_norm ? x - x.mean() : x;
    const at::Tensor deviation =
        (centered.square().mean() + data.epsilon).sqrt();
    const at::Tensor normed = (centered / deviation).abs();
    at::Tensor bound = unit * weight * normed;
    if (!data.layer_norm) return bound;
    const at::Tensor mean_error = unit * x.abs().mean() / deviation;
    // It also moves the deviation, by its square at most and what rounds off.
    return bound + weight * mean_error * (1 + normed * (1 + mean_error)) +
           kUnit * (weight * normed +
                    ToTensor(data.bias, {size}, at::kDouble).abs());
  }

  void Check(const Data& data) {
    const int64_t size = static_cast<int64_t>(data.x.size());
    std::vector<float> out(size);
    kernels().normalize({.x = data.x.data(),
                         .size = size,
                         .weight = data.weight.data(),
                         .bias = data.layer_norm ? data.bias.data() : nullptr,
                         .epsilon = static_cast<float>(data.epsilon),
                         .out = out.data()});
    ExpectNear(ToTensor(out, {size}, at::kFloat), Bound(data),
               [&](at::ScalarType dtype) { return Reference(data, dtype); });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AtenNormTest,
                         ::testing::ValuesIn(UsableBackends()), BackendName);

TEST_P(AtenNormTest, EverySizeUpTo80AndSomeLarge) {
  std::vector<int64_t> sizes(80);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {127, 128, 576, 577, 1023, 4096});
  for (bool layer_norm : {false, true}) {
    for (int64_t size : sizes) {
      for (double epsilon : {1e-6, 1e-5}) {
        SCOPED_TRACE(absl::StrCat(size, layer_norm ? ", layer norm" : ""));
        Data data = {.x = Nasty(size),
                     .weight = Nasty(size),
                     .bias = Nasty(size),
                     .epsilon = epsilon,
                     .layer_norm = layer_norm};
        Check(data);
        for (float& value : data.x) value = value / 4096 + 30;  // far from 0
        Check(data);
        std::fill(data.x.begin(), data.x.end(), 1e-3f);  // no variance
        Check(data);
      }
    }
  }
}

// ---- rotate

class AtenRotateTest : public AtenOracleTest {};
INSTANTIATE_TEST_SUITE_P(Backends, AtenRotateTest,
                         ::testing::ValuesIn(UsableBackends()), BackendName);

TEST_P(AtenRotateTest, EveryHeadDim) {
  for (int64_t head_dim = 2; head_dim <= 128; head_dim += 2) {
    SCOPED_TRACE(head_dim);
    const int64_t half = head_dim / 2;
    const std::vector<float> x = Nasty(head_dim), angles = Random(half, 1000);
    std::vector<float> cos, sin;
    for (float angle : angles) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    std::vector<float> out(head_dim);
    kernels().rotate({.x = x.data(),
                      .head_dim = head_dim,
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .scale = 0.3f,
                      .out = out.data()});
    const auto turned = [&](at::ScalarType dtype, double sign) {
      const at::Tensor all = ToTensor(x, {2, half}, dtype);
      const at::Tensor c = ToTensor(cos, {half}, dtype),
                       s = ToTensor(sin, {half}, dtype);
      if (sign > 0) {  // sizes
        const at::Tensor size = all.abs();
        return at::cat({size[0] * c.abs() + size[1] * s.abs(),
                        size[1] * c.abs() + size[0] * s.abs()});
      }
      return at::cat({all[0] * c - all[1] * s, all[1] * c + all[0] * s}) *
             double{0.3f};
    };
    ExpectNear(ToTensor(out, {head_dim}, at::kFloat),
               turned(at::kDouble, 1) * 4 * kUnit,
               [&](at::ScalarType dtype) { return turned(dtype, -1); });
  }
}

}  // namespace
}  // namespace espalier::nn
