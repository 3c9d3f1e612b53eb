// How numbers lie in device memory, so that a contiguous copy brings them to
// shared memory as the tensor cores read them: pieces of 16 bytes trade places
// by the number of their row. Plain C++: host and kernels include it.
#ifndef ESPALIER_COMMON_CUDA_LAYOUT_H_
#define ESPALIER_COMMON_CUDA_LAYOUT_H_

#include <cstdint>

#if defined(__CUDACC__)
#define ESPALIER_HOST_DEVICE __host__ __device__
#else
#define ESPALIER_HOST_DEVICE
#endif

namespace espalier::cuda {

// Numbers (bf16) of a row of a tile, and what a tile's row takes.
inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = 2 * kTileColumns;

// Byte of a number in a tile.
ESPALIER_HOST_DEVICE constexpr uint32_t TilePlace(uint32_t row,
                                                  uint32_t column) {
  return row * kTileRowBytes + ((column / 8 ^ (row & 7)) * 16) + column % 8 * 2;
}

// Weights [outputs, inputs], both multiples of 64, are strips of 64 outputs:
// [outputs / 64][inputs / 64] tiles of 64 rows, which is the order in which a
// product reads them.
inline constexpr int kStripOutputs = 64;
inline constexpr int kWeightTileBytes = kStripOutputs * kTileRowBytes;

ESPALIER_HOST_DEVICE constexpr uint64_t WeightPlace(uint32_t inputs,
                                                    uint32_t output,
                                                    uint32_t input) {
  const uint64_t tile =
      uint64_t{output / kStripOutputs} * (inputs / kTileColumns) +
      input / kTileColumns;
  return tile * kWeightTileBytes +
         TilePlace(output % kStripOutputs, input % kTileColumns);
}

// Weights of e4m3 have tiles of the same shape in the same order, a byte for
// each number, as a warpgroup's threads hold them to multiply
// (GroupMultiplyHeld): for two steps of 16 inputs each, 16 bytes of every
// thread. In each word of 32 bits, bytes 1 and 3 belong to row r, bytes 0 and 2
// to row r + 8 (WidenE4m3).
inline constexpr int kE4m3TileBytes = kStripOutputs * kTileColumns;

ESPALIER_HOST_DEVICE constexpr uint64_t E4m3WeightPlace(uint32_t inputs,
                                                        uint32_t output,
                                                        uint32_t input) {
  const uint64_t tile =
      uint64_t{output / kStripOutputs} * (inputs / kTileColumns) +
      input / kTileColumns;
  const uint32_t row = output % kStripOutputs, column = input % kTileColumns;
  const uint32_t thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
  const uint32_t word = column % 32 / 8,
                 byte = column % 2 * 2 + 1 - row / 8 % 2;
  return tile * kE4m3TileBytes + column / 32 * 2048 + thread * 16 + word * 4 +
         byte;
}

// Returns the place of an output of a gated product: of sixteen that follow
// each other, eight gates, then the eight values that they gate.
ESPALIER_HOST_DEVICE constexpr uint32_t GatePlace(uint32_t output) {
  return output / 8 * 16 + output % 8;
}
ESPALIER_HOST_DEVICE constexpr uint32_t GatedValuePlace(uint32_t output) {
  return GatePlace(output) + 8;
}

// The places of a matrix's outputs among those of a product.
enum class Placing : int { kInOrder, kGates, kGatedValues };
ESPALIER_HOST_DEVICE constexpr uint32_t OutputPlace(Placing placing,
                                                    uint32_t output) {
  switch (placing) {
    case Placing::kGates:
      return GatePlace(output);
    case Placing::kGatedValues:
      return GatedValuePlace(output);
    default:
      return output;
  }
}

// A product takes its rows in blocks of 16, 32, 64, 80, 128, 144 or 256: the
// smallest that holds them all, or several of the largest. 80 and 144 are for a
// root and a tree of 64 or 128 nodes.
inline constexpr int kMaxRowsOfBlock = 256;
ESPALIER_HOST_DEVICE constexpr int RowBlock(int rows) {
  int block = 16;
  while (block < rows && block < kMaxRowsOfBlock) block *= 2;
  const int smaller = block / 2 + 16;
  return block >= 128 && rows <= smaller ? smaller : block;
}
ESPALIER_HOST_DEVICE constexpr int PaddedRows(int rows) {
  const int block = RowBlock(rows);
  return (rows + block - 1) / block * block;
}

// Activations [rows, columns] as a product reads them: for each block of rows
// [columns / 64] tiles of that many rows. What pads the last block may be
// anything.
ESPALIER_HOST_DEVICE constexpr uint64_t ActivationPlace(uint32_t row_block,
                                                        uint32_t columns,
                                                        uint32_t row,
                                                        uint32_t column) {
  const uint64_t block = row / row_block, tiles = columns / kTileColumns;
  const uint64_t tile = block * tiles + column / kTileColumns;
  return tile * row_block * kTileRowBytes +
         TilePlace(row % row_block, column % kTileColumns);
}
ESPALIER_HOST_DEVICE constexpr uint64_t ActivationBytes(uint32_t rows,
                                                        uint32_t columns) {
  return uint64_t{2} * PaddedRows(rows) * columns;
}

// A K/V page holds kPagePositions positions: for every layer and K/V head a
// panel of keys, then one of values, a position each row.
inline constexpr int kPagePositions = 64;

ESPALIER_HOST_DEVICE constexpr uint32_t PanelBytes(uint32_t head_dim) {
  return kPagePositions * head_dim * 2;
}
ESPALIER_HOST_DEVICE constexpr uint64_t PanelOffset(uint32_t head_dim,
                                                    uint32_t kv_heads,
                                                    uint32_t layer,
                                                    uint32_t kv_head,
                                                    uint32_t is_value) {
  return ((uint64_t{layer} * kv_heads + kv_head) * 2 + is_value) *
         PanelBytes(head_dim);
}
// Byte of a piece of 8 numbers of a position in a panel.
ESPALIER_HOST_DEVICE constexpr uint32_t PanelPlace(uint32_t head_dim,
                                                   uint32_t position,
                                                   uint32_t piece) {
  return position * (head_dim * 2) + ((piece ^ (position & 7)) * 16);
}

// Attention goes over a sequence page by page, in ascending order, and keeps a
// state per chunk of pages. Chunks follow from the pages' numbers alone: the
// first 16 have 4 pages each, the next 16 have 8, all others 32. Short ones
// spread a short text over the multiprocessors, and long ones keep few states
// of a long text.
inline constexpr int kShortChunkPages = 4, kMiddleChunkPages = 8,
                     kLongChunkPages = 32;
inline constexpr int kShortChunks = 16, kMiddleChunks = 32;  // before the next
inline constexpr int kShortPages = kShortChunks * kShortChunkPages;
inline constexpr int kMiddlePages =
    kShortPages + (kMiddleChunks - kShortChunks) * kMiddleChunkPages;

ESPALIER_HOST_DEVICE constexpr int ChunkOf(int page) {
  if (page < kShortPages) return page / kShortChunkPages;
  if (page < kMiddlePages) {
    return kShortChunks + (page - kShortPages) / kMiddleChunkPages;
  }
  return kMiddleChunks + (page - kMiddlePages) / kLongChunkPages;
}
ESPALIER_HOST_DEVICE constexpr int ChunkBegin(int chunk) {
  if (chunk < kShortChunks) return chunk * kShortChunkPages;
  if (chunk < kMiddleChunks) {
    return kShortPages + (chunk - kShortChunks) * kMiddleChunkPages;
  }
  return kMiddlePages + (chunk - kMiddleChunks) * kLongChunkPages;
}

// Returns the first page of the window that a row at `position` sees;
// `position` is the last of its window. REQUIRES: 0 <= position, 1 <= window.
ESPALIER_HOST_DEVICE constexpr int FirstSeenPage(int position, int window) {
  return position < window ? 0 : (position - window + 1) / kPagePositions;
}

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_LAYOUT_H_
