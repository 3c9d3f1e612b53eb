#include <vector>

#include "tests/common/cuda/attention_problem.h"

namespace espalier::cuda {
namespace {

class CudaAttentionTest : public DeviceTest {
 protected:
  // Relative to float64. Weights are rounded to bf16, and the output too.
  static double Error(const AttentionShape& shape,
                      const std::vector<AttentionSequence>& sequences,
                      const std::vector<float>& out) {
    RelativeError error;
    size_t at = 0;
    for (const AttentionSequence& sequence : sequences) {
      for (size_t row = 0; row < sequence.rows.size(); ++row) {
        for (double wanted :
             ExactAttention(shape, sequence, static_cast<int>(row))) {
          error.Add(out[at++], wanted);
        }
      }
    }
    return error.value();
  }

  // How many of some rows differ in a bit from decoding their path.
  int CountUnlikeDecoding(const AttentionShape& shape,
                          const AttentionSequence& sequence,
                          const std::vector<float>& out, int step) {
    const size_t columns = shape.heads() * shape.head_dim;
    int unlike = 0;
    const int rows = static_cast<int>(sequence.rows.size());
    for (int row = rows - 1; row >= 0; row -= step) {
      const std::vector<float> alone =
          AttentionPass(shape, {Decoded(sequence, row)}).Attend(Device(row));
      const auto begin = out.begin() + static_cast<ptrdiff_t>(row * columns);
      unlike += !SameBits(alone, {begin, begin + columns});
    }
    return unlike;
  }
};
INSTANTIATE_FOR_DEVICES(CudaAttentionTest);

TEST_P(CudaAttentionTest, TreesAtEveryKindOfPrefix) {
  for (int head_dim : {64, 128, 256}) {
    const AttentionShape shape = {
        .kv_heads = 1, .group = 3, .head_dim = head_dim};
    for (int prefix : {0, 1, 60, 63, 64, 100, 505, 511, 513}) {
      SCOPED_TRACE(testing::Message() << head_dim << ", prefix " << prefix);
      Random random(prefix + head_dim);
      const AttentionSequence sequence = RandomSequence(
          shape, prefix, RandomTree(prefix % 2 ? 13 : 9, random), random);
      const std::vector<float> out =
          AttentionPass(shape, {sequence}).Attend(Device());
      EXPECT_LT(Error(shape, {sequence}, out), 6e-3);
      EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/4), 0);
    }
  }
}

// Windows that begin in a page of the prefix, at its edge, in the tree, and in
// another chunk than the tree; pages before them are unwritten.
TEST_P(CudaAttentionTest, WindowsAreOfPositions) {
  for (int window : {1, 5, 64, 65, 130, 300, 2000}) {
    for (int prefix : {0, 3, 63, 64, 200, 510}) {
      SCOPED_TRACE(testing::Message() << window << ", prefix " << prefix);
      const AttentionShape shape = {.kv_heads = 1,
                                    .group = 2,
                                    .head_dim = window % 2 ? 64 : 128,
                                    .window = window};
      Random random(prefix + window);
      const AttentionSequence sequence =
          RandomSequence(shape, prefix, RandomTree(11, random), random);
      const std::vector<float> out =
          AttentionPass(shape, {sequence}).Attend(Device());
      EXPECT_LT(Error(shape, {sequence}, out), 6e-3);
      EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/4), 0);
    }
  }
}

// Rows of one warp, and of one page, see different parts of the prefix.
TEST_P(CudaAttentionTest, APromptOfManyWindows) {
  const AttentionShape shape = {
      .kv_heads = 1, .group = 4, .head_dim = 256, .window = 33};
  Random random(14);
  const AttentionSequence prompt =
      RandomSequence(shape, 90, Chain(128), random);
  const std::vector<float> out =
      AttentionPass(shape, {prompt}).Attend(Device());
  EXPECT_LT(Error(shape, {prompt}, out), 6e-3);
  EXPECT_EQ(CountUnlikeDecoding(shape, prompt, out, /*step=*/29), 0);
}

TEST_P(CudaAttentionTest, Groups) {
  for (int group : {1, 2, 4, 7, 8}) {
    const AttentionShape shape = {.kv_heads = 2, .group = group};
    Random random(group);
    const AttentionSequence sequence =
        RandomSequence(shape, 70, RandomTree(11, random), random);
    const std::vector<float> out =
        AttentionPass(shape, {sequence}).Attend(Device());
    EXPECT_LT(Error(shape, {sequence}, out), 6e-3) << group;
    EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/5), 0);
  }
}

TEST_P(CudaAttentionTest, AFullTree) {
  const AttentionShape shape = {.kv_heads = 1, .group = 2};
  Random random(5);
  const AttentionSequence sequence =
      RandomSequence(shape, 100, RandomTree(255, random), random);
  const std::vector<float> out =
      AttentionPass(shape, {sequence}).Attend(Device());
  EXPECT_LT(Error(shape, {sequence}, out), 6e-3);
  EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/51), 0);
}

TEST_P(CudaAttentionTest, APromptIsAChain) {
  const AttentionShape shape = {.kv_heads = 1, .group = 4};
  Random random(6);
  const AttentionSequence prompt =
      RandomSequence(shape, 30, Chain(256), random);
  const std::vector<float> out =
      AttentionPass(shape, {prompt}).Attend(Device());
  EXPECT_LT(Error(shape, {prompt}, out), 6e-3);
  EXPECT_EQ(CountUnlikeDecoding(shape, prompt, out, /*step=*/37), 0);
}

TEST_P(CudaAttentionTest, LongTextsHaveLongerChunks) {
  const AttentionShape shape;
  Random random(7);
  const int begin = kShortPages * kPagePositions;
  for (int prefix : {begin - 3, begin + 33 * kPagePositions + 5}) {
    const AttentionSequence sequence =
        RandomSequence(shape, prefix, Chain(6), random);
    const std::vector<float> out =
        AttentionPass(shape, {sequence}).Attend(Device());
    EXPECT_LT(Error(shape, {sequence}, out), 6e-3) << prefix;
    EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/5), 0);
  }
}

// Some positions, at the edges of pages and chunks, have much of a row's
// weight: the row shows it if one of them is left out or read twice.
TEST_P(CudaAttentionTest, AContextOf128k) {
  const AttentionShape shape;
  Random random(12);
  const int prefix = (1 << 17) - 3;  // the tree crosses the last edge
  AttentionSequence sequence =
      RandomSequence(shape, /*prefix=*/1999, {-1, 0, 0, 1, 3}, random);
  while (std::ssize(sequence.prefix) < prefix) {  // no period of whole pages
    sequence.prefix.push_back(sequence.prefix[sequence.prefix.size() - 1999]);
  }
  const int row = 3;
  for (int position : {0, 63, 64, kShortPages * kPagePositions - 1,
                       kShortPages * kPagePositions, (1 << 16) - 1, 1 << 16,
                       (1 << 17) - 65, prefix - 1}) {
    for (int i = 0; i < shape.head_dim; ++i) {
      // Scores of about 9, where all others together have ln(2^17) + 0.5.
      sequence.prefix[position].key[i] =
          FloatToBf16(1.1f * Bf16ToFloat(sequence.queries[row][i]));
    }
  }
  const std::vector<float> out =
      AttentionPass(shape, {sequence}).Attend(Device());
  RelativeError error;
  const std::vector<double> wanted = ExactAttention(shape, sequence, row);
  for (size_t i = 0; i < wanted.size(); ++i) {
    error.Add(out[row * wanted.size() + i], wanted[i]);
  }
  EXPECT_LT(error.value(), 6e-3);
  EXPECT_EQ(CountUnlikeDecoding(shape, sequence, out, /*step=*/5), 0);
}

TEST_P(CudaAttentionTest, DuplicateSiblingsAreEqual) {
  const AttentionShape shape = {.kv_heads = 1, .group = 2};
  Random random(8);
  AttentionSequence sequence =
      RandomSequence(shape, 67, {-1, 0, 0, 1, 2}, random);
  for (int row : {1, 3}) {
    sequence.rows[row + 1] = sequence.rows[row];
    sequence.queries[row + 1] = sequence.queries[row];
  }
  const std::vector<float> out =
      AttentionPass(shape, {sequence}).Attend(Device());
  const int columns = shape.heads() * shape.head_dim;
  for (int row : {1, 3}) {
    for (int i = 0; i < columns; ++i) {
      ASSERT_EQ(out[row * columns + i], out[(row + 1) * columns + i]);
    }
  }
}

TEST_P(CudaAttentionTest, SequencesOfAPassDoNotSeeEachOther) {
  const AttentionShape shape = {.kv_heads = 2, .group = 3};
  Random random(9);
  std::vector<AttentionSequence> sequences;
  for (int prefix : {0, 640, 64, 129}) {
    sequences.push_back(RandomSequence(
        shape, prefix, RandomTree(5 + prefix % 7, random), random));
  }
  const std::vector<float> together =
      AttentionPass(shape, sequences).Attend(Device());
  EXPECT_LT(Error(shape, sequences, together), 6e-3);
  std::vector<float> apart;
  for (const AttentionSequence& sequence : sequences) {
    const std::vector<float> out =
        AttentionPass(shape, {sequence}).Attend(Device(3));
    apart.insert(apart.end(), out.begin(), out.end());
  }
  EXPECT_TRUE(SameBits(together, apart));
}

TEST_P(CudaAttentionTest, BitsDoNotDependOnTheSchedule) {
  const AttentionShape shape = {.kv_heads = 1, .group = 4, .head_dim = 128};
  Random random(10);
  const AttentionSequence sequence =
      RandomSequence(shape, 330, RandomTree(10, random), random);
  const AttentionPass pass(shape, {sequence});
  const std::vector<float> expected = pass.Attend(Device(1));
  for (uint64_t seed = 2; seed < 8; ++seed) {
    EXPECT_TRUE(SameBits(pass.Attend(Device(seed)), expected)) << seed;
  }
}

// Scores so far apart that all but one weight vanish.
TEST_P(CudaAttentionTest, HugeScores) {
  const AttentionShape shape;
  Random random(11);
  AttentionSequence sequence =
      RandomSequence(shape, 200, RandomTree(6, random), random);
  for (std::vector<uint16_t>& query : sequence.queries) {
    for (uint16_t& x : query) x = FloatToBf16(3e4f * Bf16ToFloat(x));
  }
  const std::vector<float> out =
      AttentionPass(shape, {sequence}).Attend(Device());
  EXPECT_LT(Error(shape, {sequence}, out), 6e-3);
}

}  // namespace
}  // namespace espalier::cuda
