// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// `Tiles` wraps one instruction of AMX in each of its functions.
#ifndef ESPALIER_COMMON_NN_AMX_INL_H_
#define ESPALIER_COMMON_NN_AMX_INL_H_

#include <cstdint>

namespace espalier::nn {
namespace {

// A tile has up to 16 rows of 64 bytes. A product takes 32 inputs of 16 rows
// times 16 columns; a panel of kPanelOutputs is two tiles side by side.
inline constexpr int64_t kAmxRows = 16;
inline constexpr int64_t kAmxInputs = 32;
inline constexpr int64_t kAmxColumns = 16;
inline constexpr int64_t kAmxRowBytes = 64;
inline constexpr int kNumAmxTiles = 8;

struct alignas(64) AmxConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The first tiles hold rows of the left side or of sums, the others columns.
inline AmxConfig AmxConfigFor(int64_t rows, int row_tiles) {
  AmxConfig config;
  for (int tile = 0; tile < kNumAmxTiles; ++tile) {
    config.row_bytes[tile] = kAmxRowBytes;
    config.rows[tile] =
        static_cast<uint8_t>(tile < row_tiles ? rows : kAmxRows);
  }
  return config;
}

// Cuts `rows` into blocks of one size, so that the tiles are configured once.
// The last may begin inside the one before it.
struct AmxBlocks {
  explicit AmxBlocks(int64_t rows)
      : all(rows),
        count((rows + kAmxRows - 1) / kAmxRows),
        size((rows + count - 1) / count) {}

  int64_t Begin(int64_t index) const {
    return index * size + size <= all ? index * size : all - size;
  }

  int64_t all;
  int64_t count;
  int64_t size;
};

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AMX_INL_H_
