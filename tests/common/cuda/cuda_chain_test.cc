// A layer's products as one kernel that stays: its bits are those of the
// kernels launched one by one, on any schedule and for any rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/base/e4m3.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Shape {
  int attended = 1024, hidden = 256, ffn = 576, qkv = 320;
  Gate gate = Gate::kSilu;
  bool has_bias = false;
  bool is_e4m3 = false;  // the weights
};

// The weights of a layer from attention's output on. Sums stay near 1.
struct Layer {
  Shape shape;
  std::vector<uint16_t> out, gate_up, down, qkv;
  std::vector<float> ffn_norm, next_norm, bias;

  explicit Layer(const Shape& s) : shape(s) {
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
struct Inputs {
  int rows;
  std::vector<uint16_t> attended;
  std::vector<float> x;

  Inputs(const Shape& shape, int count) : rows(count) {
    for (int row = 0; row < rows; ++row) {
      Random random(100 + row);
      for (uint16_t bits : random.Bf16s(shape.attended)) {
        attended.push_back(bits);
      }
      for (float value : random.Normals(shape.hidden)) x.push_back(value);
    }
  }
};

// What a chain leaves of each row.
struct Outputs {
  std::vector<float> x, qkv;  // qkv: parts added in their order
  std::vector<uint16_t> normed, gated, tap;

  friend bool operator==(const Outputs& a, const Outputs& b) {
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
Outputs First(const Outputs& all, int rows, int of) {
  return {First(all.x, rows, of), First(all.qkv, rows, of),
          First(all.normed, rows, of), First(all.gated, rows, of),
          First(all.tap, rows, of)};
}

// Codes of about the weights in units of kE4m3Unit.
constexpr float kE4m3Unit = 0x1p-8f;
std::vector<unsigned char> PackE4m3(const std::vector<uint16_t>& weights,
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
class OnDevice {
 public:
  OnDevice(ComputeDevice& device, const Layer& layer, const Inputs& inputs,
           bool has_next)
      : device_(device), shape_(layer.shape), rows_(inputs.rows) {
    const Shape& s = shape_;
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
    counters_ = ArrayOf(device, std::vector<uint32_t>(kChainCounters));
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
  Outputs Read() {
    const ProductArgs& last = args.products[ChainProduct(args.num_steps - 1)];
    Outputs out;
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
              std::vector<uint32_t>(kChainCounters));
    return out;
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
  const Shape shape_;
  const int rows_;
  DeviceArray<float> x_, parts_, ffn_norm_, next_norm_, bias_;
  DeviceArray<unsigned char> attended_, normed_, gated_;
  DeviceArray<bf16_t> tap_;
  DeviceArray<uint32_t> counters_;
  std::vector<DeviceArray<unsigned char>> weights_;
  std::vector<DeviceArray<float>> scales_;
};

Outputs Chained(ComputeDevice& device, const Layer& layer, int rows,
                bool has_next = true, std::optional<int> blocks = {}) {
  OnDevice there(device, layer, Inputs(layer.shape, rows), has_next);
  if (blocks.has_value()) there.args.blocks = *blocks;
  device.Launch(there.args);
  return there.Read();
}
Outputs Launched(ComputeDevice& device, const Layer& layer, int rows,
                 bool has_next = true) {
  OnDevice there(device, layer, Inputs(layer.shape, rows), has_next);
  there.LaunchEach();
  return there.Read();
}

class ChainTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(ChainTest);

TEST_P(ChainTest, HasTheBitsOfLaunchesForAnyRows) {
  const Layer layer{{}};
  const Outputs all = Launched(Device(1), layer, 140);
  for (int rows : {1, 5, 16, 17, 64, 65, 100, 140}) {
    const Outputs chained = Chained(Device(rows), layer, rows);
    EXPECT_TRUE(chained == Launched(Device(rows), layer, rows)) << rows;
    EXPECT_TRUE(chained == First(all, rows, 140)) << rows;
  }
}

TEST_P(ChainTest, HasTheBitsOfLaunchesForE4m3) {
  const Layer layer{{.attended = 512, .ffn = 320, .is_e4m3 = true}};
  const Outputs all = Launched(Device(1), layer, 80);
  for (int rows : {1, 16, 20, 64, 65, 80}) {
    for (int seed = 0; seed < 3; ++seed) {
      EXPECT_TRUE(Chained(Device(rows + seed), layer, rows) ==
                  First(all, rows, 80))
          << rows;
    }
  }
}

TEST_P(ChainTest, HasTheBitsOfLaunchesForAnyShape) {
  const std::pair<std::string, Shape> shapes[] = {
      {"one strip of each", {64, 64, 64, 64}},
      {"rings go round", {1600, 192, 1024, 384}},
      {"a bias, and GELU", {.gate = Gate::kGeluTanh, .has_bias = true}},
      {"rows of two threads a worker", {64, 2112, 64, 64}},
      {"rows of three quads a thread", {64, 4160, 64, 64}},
      {"weights in e4m3", {.is_e4m3 = true}}};
  for (const auto& [what, shape] : shapes) {
    const Layer layer(shape);
    for (bool has_next : {false, true}) {
      EXPECT_TRUE(Chained(Device(2), layer, 3, has_next, 6) ==
                  Launched(Device(3), layer, 3, has_next))
          << what << (has_next ? "" : ", no next layer");
    }
  }
}

// A block has several parts of a product, or none; more rows than one, or none.
TEST_P(ChainTest, BitsDoNotDependOnTheBlocks) {
  const Layer layer{{}};
  const Outputs expected = Launched(Device(1), layer, 9);
  for (int blocks : {1, 2, 3, 7, 20}) {
    EXPECT_TRUE(Chained(Device(blocks), layer, 9, true, blocks) == expected)
        << blocks;
  }
}

TEST_P(ChainTest, BitsDoNotDependOnTheSchedule) {
  const Layer layer{{.attended = 512, .hidden = 192, .ffn = 320}};
  const Outputs expected = Launched(Device(1), layer, 16);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    EXPECT_TRUE(Chained(Device(seed), layer, 16) == expected) << seed;
  }
}

// As the layers of a pass: what each reads, another wrote in another kernel.
TEST_P(ChainTest, ChainsFollowEachOther) {
  const Layer layer{{.attended = 256, .hidden = 256, .ffn = 320}};
  const auto run = [&](ComputeDevice& device, bool is_chain) {
    OnDevice there(device, layer, Inputs(layer.shape, 20), /*has_next=*/true);
    // The next layer's attention is replaced by its normed input.
    OnDevice next = OnDevice(device, layer, Inputs(layer.shape, 20), true);
    next.args.products[0].activations = there.args.products[1].activations;
    next.args.norms[0].x = next.args.norms[1].x = there.args.norms[0].x;
    for (OnDevice* each : {&there, &next}) {
      if (is_chain) {
        device.Launch(each->args);
      } else {
        each->LaunchEach();
      }
    }
    Outputs out = next.Read();
    out.x = there.Read().x;
    return out;
  };
  const Outputs expected = run(Device(1), false);
  for (uint64_t seed = 2; seed < 8; ++seed) {
    EXPECT_TRUE(run(Device(seed), true) == expected) << seed;
  }
}

// --- the definition

using Exact = std::vector<double>;

Exact Times(const std::vector<uint16_t>& m, const Exact& x) {
  Exact y(m.size() / x.size());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i) {
      y[o] += x[i] * Bf16ToFloat(m[o * x.size() + i]);
    }
  }
  return y;
}
Exact Normed(Exact x, const std::vector<float>& weight) {
  double squares = 0;
  for (double value : x) squares += value * value;
  const auto size = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= weight[i] / std::sqrt(squares / size + kEpsilon);
  }
  return x;
}

TEST_P(ChainTest, IsThatOfFloat64) {
  const Layer layer{{}};
  const Shape& s = layer.shape;
  const int rows = 6;
  const Inputs inputs(s, rows);
  const Outputs out = Chained(Device(), layer, rows);
  RelativeError of_x, of_qkv;
  for (int row = 0; row < rows; ++row) {
    Exact x(inputs.x.begin() + row * s.hidden,
            inputs.x.begin() + (row + 1) * s.hidden);
    Exact attended;
    for (int i = 0; i < s.attended; ++i) {
      attended.push_back(Bf16ToFloat(inputs.attended[row * s.attended + i]));
    }
    const auto add = [&x](const Exact& y) {
      for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    add(Times(layer.out, attended));
    const Exact gate_up = Times(layer.gate_up, Normed(x, layer.ffn_norm));
    Exact gated;
    for (int i = 0; i < s.ffn; ++i) {
      const double gate = gate_up[GatePlace(i)];
      gated.push_back(gate / (1 + std::exp(-gate)) *
                      gate_up[GatedValuePlace(i)]);
    }
    add(Times(layer.down, gated));
    const Exact qkv = Times(layer.qkv, Normed(x, layer.next_norm));
    for (int i = 0; i < s.hidden; ++i)
      of_x.Add(out.x[row * s.hidden + i], x[i]);
    for (int i = 0; i < s.qkv; ++i) {
      of_qkv.Add(out.qkv[row * s.qkv + i], qkv[i]);
    }
  }
  EXPECT_LT(of_x.value(), 3e-3);
  EXPECT_LT(of_qkv.value(), 5e-3);
}

// --- which chains the kernel runs

TEST(ChainShapeTest, FitsWhatTheKernelDoes) {
  EmulatedDevice device({});
  const Layer layer{{}};
  const auto chain = [&](int rows) {
    return OnDevice(device, layer, Inputs(layer.shape, rows), true).args;
  };
  EXPECT_TRUE(ChainFits(chain(1), 132));
  EXPECT_TRUE(ChainFits(chain(144), 128));
  EXPECT_FALSE(ChainFits(chain(145), 132));
  EXPECT_FALSE(ChainFits(chain(1), 127));
  EXPECT_FALSE(ChainFits(chain(1), 0));
  ChainArgs args = chain(1);
  args.products[3].scales = layer.bias.data();
  EXPECT_TRUE(ChainFits(args, 132)) << "weights in e4m3";
  args.products[3].rows = 81;
  EXPECT_FALSE(ChainFits(args, 132)) << "weights in e4m3, many rows";
  args = chain(1);
  args.norms[1].added_weight = layer.bias.data();
  EXPECT_FALSE(ChainFits(args, 132)) << "a norm of what is added";
  args.num_steps = 4;
  EXPECT_TRUE(ChainFits(args, 132)) << "that norm is not of the chain";
  args = chain(1);
  args.norms[0].hidden = 8256;
  EXPECT_FALSE(ChainFits(args, 132)) << "long rows";
}

TEST(ChainShapeTest, HasABlockForEachPartOfTheLargestProduct) {
  // Qwen3-8B.
  ChainArgs args;
  args.num_steps = 6;
  unsigned char gated = 0;
  args.products[0] = {.inputs = 4096, .outputs = 4096};
  args.products[1] = {.inputs = 4096, .outputs = 24576, .gated = &gated};
  args.products[2] = {.inputs = 12288, .outputs = 4096};
  args.products[3] = {.inputs = 4096, .outputs = 6144};
  EXPECT_EQ(ChainBlocks(args, 132), 128);
  // Larger: blocks have several parts.
  args.products[1].outputs = 2 * 28672;
  EXPECT_EQ(ChainBlocks(args, 132), 132);
}

}  // namespace
}  // namespace espalier::cuda
