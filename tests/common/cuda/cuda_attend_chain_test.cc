#include <vector>

#include "tests/common/cuda/attention_problem.h"

namespace espalier::cuda {
namespace {

class CudaAttendChainTest : public DeviceTest {
 protected:
  // Returns whether it is the same by which kernel chains are attended to, on
  // a few schedules.
  bool HasTheBitsOfTrees(const AttentionShape& shape,
                         const std::vector<AttentionSequence>& sequences) {
    const std::vector<float> wanted =
        AttentionPass(shape, sequences).Attend(Device());
    const AttentionPass pass(shape, sequences, Chains::kAsChains);
    for (uint64_t seed = 1; seed < 3; ++seed) {
      if (!SameBits(pass.Attend(Device(seed)), wanted)) return false;
    }
    return true;
  }
};
INSTANTIATE_FOR_DEVICES(CudaAttendChainTest);

// Prompts that begin and end anywhere in pages, of all kinds of heads.
TEST_P(CudaAttendChainTest, PromptsHaveTheBitsOfTrees) {
  for (const AttentionShape& shape :
       {AttentionShape{.kv_heads = 2, .group = 1, .head_dim = 64},
        AttentionShape{.kv_heads = 1, .group = 3, .head_dim = 128},
        AttentionShape{.kv_heads = 1, .group = 4, .head_dim = 128},
        AttentionShape{.kv_heads = 1, .group = 8, .head_dim = 64}}) {
    for (int prefix : {0, 1, 63, 64, 100, 200, 255, 513}) {
      for (int rows : {1, 17, 65}) {
        SCOPED_TRACE(testing::Message() << shape.head_dim << "/" << shape.group
                                        << ", " << prefix << " + " << rows);
        Random random(prefix + rows + shape.group);
        const AttentionSequence chain =
            RandomSequence(shape, prefix, Chain(rows), random);
        EXPECT_TRUE(HasTheBitsOfTrees(shape, {chain}));
      }
    }
  }
}

// Windows that begin before the chain, at its first page, and within it.
TEST_P(CudaAttendChainTest, WindowsHaveTheBitsOfTrees) {
  for (int window : {1, 5, 64, 65, 130, 300, 2000}) {
    for (int prefix : {0, 3, 63, 64, 200, 510}) {
      SCOPED_TRACE(testing::Message() << window << ", prefix " << prefix);
      const AttentionShape shape = {.kv_heads = 1,
                                    .group = window % 2 ? 1 : 4,
                                    .head_dim = window % 2 ? 64 : 128,
                                    .window = window};
      Random random(prefix + window);
      const AttentionSequence chain =
          RandomSequence(shape, prefix, Chain(81), random);
      EXPECT_TRUE(HasTheBitsOfTrees(shape, {chain}));
    }
  }
}

TEST_P(CudaAttendChainTest, ChainsAndTreesOfAPass) {
  const AttentionShape shape = {.kv_heads = 2, .group = 4, .head_dim = 128};
  Random random(15);
  std::vector<AttentionSequence> sequences;
  for (int prefix : {0, 640, 64, 129}) {
    sequences.push_back(RandomSequence(
        shape, prefix,
        prefix == 64 ? RandomTree(9, random) : Chain(20 + prefix % 7), random));
  }
  EXPECT_TRUE(HasTheBitsOfTrees(shape, sequences));
}

TEST_P(CudaAttendChainTest, AChainOfAllRows) {
  for (int window : {0, 90}) {
    const AttentionShape shape = {
        .kv_heads = 1, .group = 4, .head_dim = 128, .window = window};
    Random random(16);
    const AttentionSequence chain =
        RandomSequence(shape, 150, Chain(256), random);
    EXPECT_TRUE(HasTheBitsOfTrees(shape, {chain}));
  }
}

// Returns the two halves of a chain, as in passes that follow each other.
std::vector<AttentionSequence> Halves(const AttentionSequence& chain) {
  const auto half = std::ssize(chain.rows) / 2;
  AttentionSequence first = {.prefix = chain.prefix}, second = first;
  for (auto i = 0; i < 2 * half; ++i) {
    AttentionSequence& of = i < half ? first : second;
    if (i < half) second.prefix.push_back(chain.rows[i]);
    of.parents.push_back(static_cast<int>(std::ssize(of.rows)) - 1);
    of.rows.push_back(chain.rows[i]);
    of.queries.push_back(chain.queries[i]);
  }
  return {first, second};
}

// Twice the rows of the largest tree, beside a tree.
TEST_P(CudaAttendChainTest, AChainHasTheBitsOfItsHalves) {
  for (int window : {0, 300}) {
    const AttentionShape shape = {
        .kv_heads = 1, .group = 2, .head_dim = 128, .window = window};
    Random random(17);
    const AttentionSequence tree =
        RandomSequence(shape, 70, RandomTree(9, random), random);
    const AttentionSequence chain =
        RandomSequence(shape, 150, Chain(MostChainRows(128)), random);
    std::vector<AttentionSequence> halves = Halves(chain);
    halves.push_back(tree);
    EXPECT_TRUE(SameBits(
        AttentionPass(shape, {chain, tree}, Chains::kAsChains).Attend(Device()),
        AttentionPass(shape, halves).Attend(Device())));
  }
}

}  // namespace
}  // namespace espalier::cuda
