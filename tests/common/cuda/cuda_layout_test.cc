#include <set>

#include "common/cuda/layout.h"
#include "gtest/gtest.h"

namespace espalier::cuda {
namespace {

TEST(CudaLayoutTest, EveryNumberHasAPlaceOfItsOwn) {
  std::set<uint64_t> weights, e4m3, activations, panel;
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t column = 0; column < 192; ++column) {
      weights.insert(WeightPlace(192, row, column));
      e4m3.insert(E4m3WeightPlace(192, row, column));
      activations.insert(ActivationPlace(32, 192, row, column));
    }
  }
  for (uint32_t position = 0; position < 64; ++position) {
    for (uint32_t piece = 0; piece < 16; ++piece) {
      panel.insert(PanelPlace(128, position, piece));
    }
  }
  EXPECT_EQ(weights.size(), 128u * 192);
  EXPECT_EQ(*weights.rbegin(), 128u * 192 * 2 - 2);
  EXPECT_EQ(e4m3.size(), 128u * 192);
  EXPECT_EQ(*e4m3.rbegin(), 128u * 192 - 1);
  EXPECT_EQ(activations.size(), 128u * 192);
  EXPECT_EQ(*activations.rbegin(), 128u * 192 * 2 - 2);
  EXPECT_EQ(panel.size(), 64u * 16);
  EXPECT_EQ(*panel.rbegin(), PanelBytes(128) - 16);
}

// A copy of a whole tile is one that lies together.
TEST(CudaLayoutTest, TilesLieTogether) {
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      const uint64_t at = WeightPlace(192, 64 + row, 128 + column);
      EXPECT_EQ(at / kWeightTileBytes, 5u);
      EXPECT_EQ(E4m3WeightPlace(192, 64 + row, 128 + column) / kE4m3TileBytes,
                5u);
      EXPECT_EQ(at % 16 / 2, column % 8);  // pieces of 8 stay whole
    }
  }
}

TEST(CudaLayoutTest, GatesAndValuesTakeTurns) {
  std::set<uint32_t> places;
  for (uint32_t output = 0; output < 96; ++output) {
    EXPECT_EQ(GatedValuePlace(output), GatePlace(output) + 8);
    places.insert(GatePlace(output));
    places.insert(GatedValuePlace(output));
  }
  EXPECT_EQ(places.size(), 192u);
  EXPECT_EQ(*places.rbegin(), 191u);
}

// Checks 128k positions and more: each page is of one chunk, in order.
TEST(CudaLayoutTest, ChunksFollowFromPages) {
  int chunk = 0;
  for (int page = 0; page < 4096; ++page) {
    if (ChunkBegin(chunk + 1) == page) ++chunk;
    ASSERT_EQ(ChunkOf(page), chunk);
    ASSERT_LE(ChunkBegin(chunk), page);
  }
  EXPECT_EQ(chunk, kMiddleChunks + (4096 - kMiddlePages) / kLongChunkPages - 1);
}

TEST(CudaLayoutTest, RowBlocksHoldTheirRows) {
  for (int rows = 0; rows < 1000; ++rows) {
    const int block = RowBlock(rows);
    EXPECT_TRUE(block == kMaxRowsOfBlock || block >= rows);
    EXPECT_GE(block, RowBlock(rows - 1));
    EXPECT_GE(PaddedRows(rows), rows);
    EXPECT_EQ(PaddedRows(rows) % block, 0);
  }
  std::set<int> blocks;
  for (int rows = 1; rows < 1000; ++rows) blocks.insert(RowBlock(rows));
  EXPECT_EQ(blocks, (std::set<int>{16, 32, 64, 80, 128, 144, 256}));
}

}  // namespace
}  // namespace espalier::cuda
