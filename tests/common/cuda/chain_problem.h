// Products of a layer with random weights, what they read and leave.
#ifndef ESPALIER_TESTS_COMMON_CUDA_CHAIN_PROBLEM_H_
#define ESPALIER_TESTS_COMMON_CUDA_CHAIN_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/e4m3.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {

inline constexpr float kEpsilon = 1e-5f;

struct ChainShape {
  int attended = 1024, hidden = 256, ffn = 576, qkv = 320;
  Gate gate = Gate::kSilu;
  bool has_bias = false;
  bool is_e4m3 = false;  // the weights
};

// The weights of a layer from attention's output on. Sums stay near 1.
struct ChainWeights {
  ChainShape shape;
  std::vector<uint16_t> out, gate_up, down, qkv;
  std::vector<float> ffn_norm, next_norm, bias;

  explicit ChainWeights(const ChainShape& s) : shape(s) {
    Random random(7);
    const auto matrix = [&](int outputs, int inputs) {
      std::vector<uint16_t> w(int64_t{outputs} * inputs);
      for (uint16_t& x : w) {
        x = FloatToBf16(random.Normal() /
                        std::sqrt(static_cast<float>(inputs)));
      }
      return w;
    };
    out = matrix(s.hidden, s.attended);
    gate_up = matrix(2 * s.ffn, s.hidden);
    down = matrix(s.hidden, s.ffn);
    qkv = matrix(s.qkv, s.hidden);
    for (int i = 0; i < s.hidden; ++i) {
      ffn_norm.push_back(1 + 0.2f * random.Normal());
      next_norm.push_back(1 + 0.2f * random.Normal());
    }
    bias = random.Normals(s.hidden, 0.3f);
  }
};

// Row i is the same whatever the number of rows.
struct ChainInputs {
  int rows;
  std::vector<uint16_t> attended;
  std::vector<float> x;

  ChainInputs(const ChainShape& shape, int count) : rows(count) {
    for (int row = 0; row < rows; ++row) {
      Random random(100 + row);
      for (uint16_t bits : random.Bf16s(shape.attended)) {
        attended.push_back(bits);
      }
      for (float value : random.Normals(shape.hidden)) x.push_back(value);
    }
  }
};

// Holds what a chain leaves of each row.
struct ChainOutputs {
  std::vector<float> x, qkv;  // qkv: parts added in their order
  std::vector<uint16_t> normed, gated, tap;

  friend bool operator==(const ChainOutputs& a, const ChainOutputs& b) {
    return SameBits(a.x, b.x) && SameBits(a.qkv, b.qkv) &&
           a.normed == b.normed && a.gated == b.gated && a.tap == b.tap;
  }
};

// The first rows of an array of so many.
template <typename T>
std::vector<T> First(const std::vector<T>& all, int64_t rows, int64_t of) {
  const auto columns = static_cast<int64_t>(all.size()) / of;
  return {all.begin(), all.begin() + rows * columns};
}
inline ChainOutputs First(const ChainOutputs& all, int rows, int of) {
  return {First(all.x, rows, of), First(all.qkv, rows, of),
          First(all.normed, rows, of), First(all.gated, rows, of),
          First(all.tap, rows, of)};
}

// Codes of about the weights in units of kE4m3Unit.
inline constexpr float kE4m3Unit = 0x1p-8f;
inline std::vector<unsigned char> PackE4m3(const std::vector<uint16_t>& weights,
                                           int outputs, int inputs) {
  std::vector<unsigned char> packed(weights.size());
  for (int o = 0; o < outputs; ++o) {
    for (int i = 0; i < inputs; ++i) {
      packed[E4m3WeightPlace(inputs, o, i)] =
          FloatToE4m3(Bf16ToFloat(weights[o * inputs + i]) / kE4m3Unit);
    }
  }
  return packed;
}

// A chain in a device's memory. What it writes is NaN at first.
class ChainOnDevice {
 public:
  ChainOnDevice(ComputeDevice& device, const ChainWeights& layer,
                const ChainInputs& inputs, bool has_next)
      : device_(device), shape_(layer.shape), rows_(inputs.rows) {
    const ChainShape& s = shape_;
    const int rows = rows_;
    x_ = ArrayOf(device, inputs.x);
    attended_ =
        ArrayOf(device, PackActivations(inputs.attended, rows, s.attended));
    normed_ = Activations(s.hidden);
    gated_ = Activations(s.ffn);
    tap_ = NanArray<bf16_t>(device, int64_t{rows} * s.hidden);
    ffn_norm_ = ArrayOf(device, layer.ffn_norm);
    next_norm_ = ArrayOf(device, layer.next_norm);
    bias_ = ArrayOf(device, layer.bias);
    counters_ = ArrayOf(device, std::vector<uint32_t>(kLayerCounters));
    // One array for the parts of all, as in a decoder.
    int64_t parts = 0;
    for (const auto& [outputs, in] : {std::pair{s.hidden, s.attended},
                                      {s.hidden, s.ffn},
                                      {s.qkv, s.hidden}}) {
      parts = std::max(parts, int64_t{ProductSplits(outputs, in)} *
                                  PaddedRows(rows) * outputs);
    }
    parts_ = NanArray<float>(device, parts);
    args.num_steps = has_next ? 6 : 4;
    args.products[0] = Product(layer.out, s.hidden, attended_, s.attended);
    args.norms[0] = Norm(ffn_norm_, s.attended);
    args.products[1] = Product(layer.gate_up, 2 * s.ffn, normed_, s.hidden);
    args.products[1].parts = nullptr;
    args.products[1].gated = gated_.data();
    args.products[1].gate = s.gate;
    args.products[2] = Product(layer.down, s.hidden, gated_, s.ffn);
    if (has_next) {
      args.norms[1] = Norm(next_norm_, s.ffn);
      args.norms[1].tap = tap_.data();
      args.products[3] = Product(layer.qkv, s.qkv, normed_, s.hidden);
    }
    args.counters = counters_.data();
    args.blocks = ChainBlocks(args, 132);
  }

  void LaunchEach() {
    ForEachOfChain(args,
                   [this](const auto& kernel) { device_.Launch(kernel); });
  }
  // Returns also what the last product left, in place of qkv.
  ChainOutputs Read() {
    const ProductArgs& last = args.products[ChainProduct(args.num_steps - 1)];
    ChainOutputs out;
    out.x = ValuesOf(device_, x_);
    out.normed = RowsOf(normed_, shape_.hidden);
    out.gated = RowsOf(gated_, shape_.ffn);
    out.tap = ValuesOf(device_, tap_);
    const std::vector<float> parts = ValuesOf(device_, parts_);
    const int64_t padded = int64_t{PaddedRows(rows_)} * last.outputs;
    for (int64_t i = 0; i < int64_t{rows_} * last.outputs; ++i) {
      float sum = 0;
      for (int split = 0; split < ProductSplits(last.outputs, last.inputs);
           ++split) {
        sum += parts[split * padded + i];
      }
      out.qkv.push_back(sum);
    }
    EXPECT_EQ(ValuesOf(device_, counters_),
              std::vector<uint32_t>(kLayerCounters));
    return out;
  }

  // Where attention leaves the rows of the first product.
  unsigned char* attended() const { return attended_.data(); }
  std::vector<uint16_t> ReadAttended() {
    return RowsOf(attended_, shape_.attended);
  }

  ChainArgs args;

 private:
  DeviceArray<unsigned char> Activations(int columns) {
    return NanArray<unsigned char>(
        device_, static_cast<int64_t>(ActivationBytes(rows_, columns)));
  }
  ProductArgs Product(const std::vector<uint16_t>& weights, int outputs,
                      const DeviceArray<unsigned char>& rows, int inputs) {
    if (shape_.is_e4m3) {
      weights_.push_back(ArrayOf(device_, PackE4m3(weights, outputs, inputs)));
      std::vector<float> scales;
      for (int i = 0; i < outputs; ++i) {
        scales.push_back(kE4m3Unit * (1.0f + static_cast<float>(i % 7) / 8));
      }
      scales_.push_back(ArrayOf(device_, scales));
    } else {
      weights_.push_back(
          ArrayOf(device_, PackWeights(weights, outputs, inputs)));
    }
    return {.weights = weights_.back().data(),
            .scales = shape_.is_e4m3 ? scales_.back().data() : nullptr,
            .activations = rows.data(),
            .rows = rows_,
            .inputs = inputs,
            .outputs = outputs,
            .parts = parts_.data()};
  }
  ResidualNormArgs Norm(const DeviceArray<float>& weight, int inputs) {
    return {.x = x_.data(),
            .parts = {.values = parts_.data(),
                      .splits = ProductSplits(shape_.hidden, inputs),
                      .padded_rows = PaddedRows(rows_),
                      .outputs = shape_.hidden,
                      .bias = shape_.has_bias ? bias_.data() : nullptr},
            .rows = rows_,
            .hidden = shape_.hidden,
            .weight = weight.data(),
            .epsilon = kEpsilon,
            .out = normed_.data(),
            .out_block = RowBlock(rows_)};
  }
  std::vector<uint16_t> RowsOf(const DeviceArray<unsigned char>& packed,
                               int columns) {
    const std::vector<unsigned char> bytes = ValuesOf(device_, packed);
    std::vector<uint16_t> out;
    for (int row = 0; row < rows_; ++row) {
      for (int i = 0; i < columns; ++i) {
        out.push_back(ActivationAt(bytes, rows_, columns, row, i));
      }
    }
    return out;
  }

  ComputeDevice& device_;
  const ChainShape shape_;
  const int rows_;
  DeviceArray<float> x_, parts_, ffn_norm_, next_norm_, bias_;
  DeviceArray<unsigned char> attended_, normed_, gated_;
  DeviceArray<bf16_t> tap_;
  DeviceArray<uint32_t> counters_;
  std::vector<DeviceArray<unsigned char>> weights_;
  std::vector<DeviceArray<float>> scales_;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_COMMON_CUDA_CHAIN_PROBLEM_H_
