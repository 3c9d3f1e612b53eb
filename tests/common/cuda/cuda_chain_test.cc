// A layer's products as one kernel that stays: its bits are those of the
// kernels launched one by one, on any schedule and for any rows.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/cuda/chain_shape.h"
#include "tests/common/cuda/chain_problem.h"

namespace espalier::cuda {
namespace {

using Shape = ChainShape;
using Layer = ChainWeights;
using Inputs = ChainInputs;
using Outputs = ChainOutputs;
using OnDevice = ChainOnDevice;

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
