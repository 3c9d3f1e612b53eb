#include "common/rpc/feature_chunks.h"

#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

absl::StatusOr<FeatureRows> Joined(
    const std::vector<v1::FeatureChunk>& chunks) {
  FeatureRows rows;
  for (const v1::FeatureChunk& chunk : chunks) {
    RETURN_IF_ERROR(AddChunk(chunk, rows));
  }
  return rows;
}

TEST(FeatureChunks, AreSmallAndJoinToWhatTheyWere) {
  EXPECT_TRUE(ToChunks({.width = 3}).empty());
  for (int64_t width : {1, 1000, 300'000, 600'000}) {
    const FeatureRows rows = TestFeatures(/*first=*/9, /*rows=*/7, width);
    const auto chunks = ToChunks(rows);
    for (const v1::FeatureChunk& chunk : chunks) {
      EXPECT_TRUE(static_cast<int64_t>(chunk.data().size()) <= kMaxChunkBytes ||
                  chunk.num_rows() == 1);
    }
    EXPECT_EQ(chunks.size(), width > 250'000 ? 7u : 1u);
    auto joined = Joined(chunks);
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_TRUE(*joined == rows);
  }
}

TEST(FeatureChunks, MalformedOnesAreRefused) {
  const auto refused = [](auto change) {
    std::vector<v1::FeatureChunk> chunks = {ToChunks(TestFeatures(5, 4, 6))[0],
                                            ToChunks(TestFeatures(9, 2, 6))[0]};
    EXPECT_TRUE(Joined(chunks).ok());
    change(chunks[1]);
    return absl::IsInvalidArgument(Joined(chunks).status());
  };
  using Chunk = v1::FeatureChunk;
  EXPECT_TRUE(refused([](Chunk& c) { c.set_first_position(10); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_first_position(8); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_first_position(~uint64_t{0}); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_num_rows(0); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_num_rows(4); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_num_rows(5); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.set_num_rows(~uint32_t{0}); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.clear_data(); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.mutable_data()->pop_back(); }));
  EXPECT_TRUE(refused([](Chunk& c) { c.clear_type(); }));
}

}  // namespace
}  // namespace espalier
