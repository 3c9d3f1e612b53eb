// A layer as one kernel that stays, from attention on: its bits are those of
// the kernels launched one by one, on any schedule and for any rows.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/chain_shape.h"
#include "common/cuda/emulation/resident_grid.h"
#include "tests/common/cuda/attention_problem.h"
#include "tests/common/cuda/chain_problem.h"
#include "tests/device/layer_forms.h"

namespace espalier::cuda {
namespace {

struct LayerShape {
  AttentionShape attention = {.kv_heads = 2, .group = 2, .head_dim = 64};
  int prefix = 300;
  bool is_e4m3 = false;
  int splits = 2;  // of qkv
  bool has_norms = true;
  bool has_next = true;

  ChainShape chain() const {
    return {.attended = attention.heads() * attention.head_dim,
            .hidden = 192,
            .ffn = 320,
            .qkv = 128,
            .is_e4m3 = is_e4m3};
  }
};

// A tree whose row i is the same whatever the number of rows.
AttentionSequence SequenceOf(const LayerShape& shape, int rows) {
  constexpr int kMaxRows = 144;
  Random random(3);
  AttentionSequence sequence = RandomSequence(
      shape.attention, shape.prefix, RandomTree(kMaxRows, random), random);
  sequence.rows.resize(rows);
  sequence.queries.resize(rows);
  sequence.parents.resize(rows);
  return sequence;
}

struct LayerOutputs {
  ChainOutputs chain;
  std::vector<uint16_t> queries, attended;
  std::vector<unsigned char> pages;

  bool operator==(const LayerOutputs&) const = default;
};

// A layer in a device's memory.
class LayerOnDevice {
 public:
  LayerOnDevice(ComputeDevice& device, const LayerShape& shape,
                const std::vector<AttentionSequence>& sequences)
      : device_(device),
        pass_(shape.attention, sequences),
        there_(pass_.PutOn(device)),
        weights_(shape.chain()),
        chain_(device, weights_, ChainInputs(shape.chain(), pass_.rows()),
               shape.has_next) {
    const std::vector<PrefixItem> prefix_items = pass_.LayerPrefixItems();
    const std::vector<TreeItem> tree_items = pass_.LayerTreeItems();
    prefix_items_ = ArrayOf(device, prefix_items);
    tree_items_ = ArrayOf(device, tree_items);
    there_.args.out = chain_.attended();
    args = {.prepare = Preparation(shape),
            .attend = there_.args,
            .prefix_items = prefix_items_.data(),
            .tree_items = tree_items_.data(),
            .num_prefix_items = static_cast<int>(prefix_items.size()),
            .num_tree_items = static_cast<int>(tree_items.size()),
            .chain = chain_.args};
  }

  void LaunchEach() {
    ForEachOfLayer(args,
                   [this](const auto& kernel) { device_.Launch(kernel); });
  }
  LayerOutputs Read() {
    return {.chain = chain_.Read(),
            .queries = ValuesOf(device_, there_.queries),
            .attended = chain_.ReadAttended(),
            .pages = ValuesOf(device_, there_.pages)};
  }

  LayerChainArgs args;

 private:
  PrepareArgs Preparation(const LayerShape& shape) {
    const AttentionShape& of = shape.attention;
    const int rows = pass_.rows(), padded = PaddedRows(rows);
    const int outputs = (of.heads() + 2 * of.kv_heads) * of.head_dim;
    std::vector<float> parts(int64_t{shape.splits} * padded * outputs);
    for (int row = 0; row < rows; ++row) {
      Random random(50 + row);
      for (int split = 0; split < shape.splits; ++split) {
        for (int i = 0; i < outputs; ++i) {
          parts[(int64_t{split} * padded + row) * outputs + i] =
              random.Normal();
        }
      }
    }
    Random random(9);
    qkv_ = ArrayOf(device_, parts);
    query_norm_ = ArrayOf(device_, random.Normals(of.head_dim));
    key_norm_ = ArrayOf(device_, random.Normals(of.head_dim));
    angles_ =
        ArrayOf(device_, random.Normals((shape.prefix + 200) * of.head_dim));
    return {.parts = {.values = qkv_.data(),
                      .splits = shape.splits,
                      .padded_rows = padded,
                      .outputs = outputs},
            .query_norm = shape.has_norms ? query_norm_.data() : nullptr,
            .key_norm = shape.has_norms ? key_norm_.data() : nullptr,
            .epsilon = kEpsilon,
            .angles = angles_.data(),
            .rows = there_.rows.data(),
            .sequences = there_.sequences.data(),
            .num_rows = rows,
            .heads = of.heads(),
            .kv_heads = of.kv_heads,
            .head_dim = of.head_dim,
            .kv = there_.args.kv,
            .queries = there_.queries.data()};
  }

  ComputeDevice& device_;
  const AttentionPass pass_;
  AttentionPass::OnDevice there_;
  const ChainWeights weights_;
  ChainOnDevice chain_;
  DeviceArray<float> qkv_, query_norm_, key_norm_, angles_;
  DeviceArray<PrefixItem> prefix_items_;
  DeviceArray<TreeItem> tree_items_;
};

LayerOutputs Chained(ComputeDevice& device, const LayerShape& shape,
                     const std::vector<AttentionSequence>& sequences,
                     std::optional<int> blocks = {}) {
  LayerOnDevice there(device, shape, sequences);
  if (blocks.has_value()) there.args.chain.blocks = *blocks;
  device.Launch(there.args);
  return there.Read();
}
LayerOutputs Launched(ComputeDevice& device, const LayerShape& shape,
                      const std::vector<AttentionSequence>& sequences) {
  LayerOnDevice there(device, shape, sequences);
  there.LaunchEach();
  return there.Read();
}

class LayerChainTest : public DeviceTest {
 protected:
  void ExpectBitsOfLaunches(const std::string& what, const LayerShape& shape,
                            const std::vector<AttentionSequence>& sequences,
                            std::optional<int> blocks = {}) {
    EXPECT_TRUE(Chained(Device(2), shape, sequences, blocks) ==
                Launched(Device(3), shape, sequences))
        << what;
  }
};
INSTANTIATE_FOR_DEVICES(LayerChainTest);

TEST_P(LayerChainTest, HasTheBitsOfLaunchesForAnyRows) {
  const LayerShape shape;
  constexpr int kAll = 144;
  const LayerOutputs all =
      Launched(Device(1), shape, {SequenceOf(shape, kAll)});
  for (int rows : {1, 5, 16, 17, 64, 65, 100, kAll}) {
    const LayerOutputs chained =
        Chained(Device(rows), shape, {SequenceOf(shape, rows)}, 7);
    EXPECT_TRUE(chained ==
                Launched(Device(rows), shape, {SequenceOf(shape, rows)}))
        << rows;
    EXPECT_TRUE(chained.chain == First(all.chain, rows, kAll)) << rows;
    EXPECT_EQ(chained.attended, First(all.attended, rows, kAll)) << rows;
  }
}

TEST_P(LayerChainTest, HasTheBitsOfLaunchesForAnyShape) {
  const AttentionShape wide = {.kv_heads = 1, .group = 4, .head_dim = 128};
  const std::pair<std::string, LayerShape> shapes[] = {
      {"no prefix", {.prefix = 0}},
      {"no page of the prefix is whole", {.prefix = 63}},
      {"one page is", {.prefix = 64}},
      {"a chunk ends in the tree", {.prefix = 250}},
      {"heads of 128", {.attention = wide}},
      {"heads of 128, weights in e4m3", {.attention = wide, .is_e4m3 = true}},
      {"weights in e4m3", {.is_e4m3 = true}},
      {"groups of eight", {.attention = {1, 8, 64}}},
      {"a head each", {.attention = {3, 1, 64}}},
      {"no norms", {.splits = 1, .has_norms = false}},
      {"no next layer", {.has_next = false}}};
  for (const auto& [what, shape] : shapes) {
    ExpectBitsOfLaunches(what, shape, {SequenceOf(shape, 20)}, 6);
  }
}

// 144 rows of heads of 128 fill the ring with the pages of their tree.
TEST_P(LayerChainTest, TreesMayTakeAllPagesOfTheRing) {
  const LayerShape shape = {
      .attention = {.kv_heads = 1, .group = 2, .head_dim = 128}, .prefix = 190};
  for (int rows : {80, 144}) {
    ExpectBitsOfLaunches("many rows", shape, {SequenceOf(shape, rows)}, 5);
  }
}

// A block has several heads and items, or none.
TEST_P(LayerChainTest, BitsDoNotDependOnTheBlocks) {
  const LayerShape shape = {.attention = {.kv_heads = 3, .group = 1}};
  const std::vector<AttentionSequence> sequences = {SequenceOf(shape, 20)};
  const LayerOutputs expected = Launched(Device(1), shape, sequences);
  for (int blocks : {1, 2, 3, 4, 7, 30}) {
    EXPECT_TRUE(Chained(Device(blocks), shape, sequences, blocks) == expected)
        << blocks;
  }
}

TEST_P(LayerChainTest, BitsDoNotDependOnTheSchedule) {
  const LayerShape shape = {.attention = {.kv_heads = 2, .group = 1},
                            .prefix = 150};
  const std::vector<AttentionSequence> sequences = {SequenceOf(shape, 16)};
  const LayerOutputs expected = Launched(Device(1), shape, sequences);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    EXPECT_TRUE(Chained(Device(seed), shape, sequences, 5) == expected) << seed;
  }
}

TEST_P(LayerChainTest, SequencesOfAPass) {
  const LayerShape shape;
  Random random(4);
  std::vector<AttentionSequence> sequences;
  for (int prefix : {0, 300, 64, 129}) {
    sequences.push_back(RandomSequence(
        shape.attention, prefix, RandomTree(3 + prefix % 7, random), random));
  }
  ExpectBitsOfLaunches("four sequences", shape, sequences, 6);
}

// --- hints at weights, in the forms of `tune`

// Returns how many hints the kernel gave. The emulation ends the process for
// one at what the block does not bring after it.
int RunForm(const LayerFormArgs& args, uint64_t seed) {
  emulation::StackPool stacks;
  int hints = 0;
  LaunchLayerForm(
      EmulatedLauncher(
          [&](const LaunchShape& shape, std::function<void()> kernel) {
            emulation::ResidentGrid grid({.kernel = shape.kernel,
                                          .grid = {shape.grid_x},
                                          .threads = shape.threads,
                                          .shared_bytes = shape.shared_bytes,
                                          .seed = seed},
                                         std::move(kernel), stacks);
            grid.Finish();
            hints = grid.hints();
          }),
      args);
  return hints;
}

constexpr int kHintedTiles = kHintedBytes / kWeightTileBytes;

class LayerHintsTest : public testing::Test {
 protected:
  // Expects the bits of launches of a form, and returns its hints.
  int ExpectSameBits(const LayerShape& shape, int rows, int blocks,
                     LayerFormArgs form) {
    const std::vector<AttentionSequence> sequences = {SequenceOf(shape, rows)};
    EmulatedDevice device({.seed = 2}), other({.seed = 3});
    LayerOnDevice there(device, shape, sequences);
    Finish(device);
    form.layer = there.args;
    form.layer.chain.blocks = blocks;
    const int hints = RunForm(form, rows + blocks);
    EXPECT_TRUE(there.Read() == Launched(other, shape, sequences))
        << rows << " rows, prefix " << shape.prefix << ", " << blocks
        << " blocks, pages " << form.pages << ", hints " << form.has_hints;
    return hints;
  }

  static LayerShape ShapeOf(int prefix) {
    return {.attention = {.kv_heads = 1, .group = 2, .head_dim = 128},
            .prefix = prefix};
  }
};

TEST_F(LayerHintsTest, BitsAreThoseWithoutHints) {
  for (int rows : {1, 10, 70}) {
    for (int prefix : {0, 150}) {
      for (int blocks : {2, 5}) {
        const LayerShape shape = ShapeOf(prefix);
        EXPECT_EQ(ExpectSameBits(shape, rows, blocks, {}), 0);
        EXPECT_LE(ExpectSameBits(shape, rows, blocks, {.has_hints = true}),
                  blocks * kHintedTiles);
      }
    }
  }
}

TEST_F(LayerHintsTest, BitsDoNotDependOnThePagesOfTheRing) {
  for (int pages : {12, 16}) {
    for (bool has_hints : {false, true}) {
      ExpectSameBits(ShapeOf(150), 70, 3,
                     {.has_hints = has_hints, .pages = pages});
    }
  }
}

// A block that has all tiles hints once, at panels or at weights that fill the
// ring.
TEST_F(LayerHintsTest, ABlockHintsOnce) {
  for (int rows : {1, 70}) {
    for (int prefix : {0, 300}) {
      EXPECT_EQ(ExpectSameBits(ShapeOf(prefix), rows, 1, {.has_hints = true}),
                kHintedTiles)
          << rows << " rows, prefix " << prefix;
    }
  }
}

// --- which layers the kernel runs

TEST(LayerChainShapeTest, FitsWhatTheKernelDoes) {
  EmulatedDevice device({});
  const LayerShape shape;
  const LayerOnDevice layer(device, shape, {SequenceOf(shape, 20)});
  EXPECT_TRUE(LayerChainFits(layer.args, 132));
  EXPECT_FALSE(LayerChainFits(layer.args, 127));
  const auto fits = [&](auto change) {
    LayerChainArgs args = layer.args;
    change(args);
    return LayerChainFits(args, 132);
  };
  EXPECT_FALSE(fits([](auto& args) { args.attend.window = 100; }));
  EXPECT_FALSE(fits([](auto& args) { args.attend.num_chain_items = 1; }));
  EXPECT_FALSE(fits([](auto& args) { args.attend.head_dim = 256; }));
  EXPECT_FALSE(fits([](auto& args) { args.attend.kv_heads = 33; }));
  EXPECT_FALSE(fits([](auto& args) { args.prepare.layers = 2; }));
  EXPECT_FALSE(fits([](auto& args) { args.chain.products[1].rows = 145; }));
  EXPECT_FALSE(fits([](auto& args) { args.attend.tree_pages = 20; }));
  EXPECT_FALSE(fits([](auto& args) { args.num_prefix_items = 2 * 132 + 1; }));
}

}  // namespace
}  // namespace espalier::cuda
