#include "tests/common/nn/amx_tiles.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/bf16.h"
#include "common/nn/amx_inl.h"

namespace espalier::nn {
namespace {

thread_local AmxConfig config;
thread_local std::byte tiles[kNumAmxTiles][kAmxRows][kAmxRowBytes];

float Flush(float x) { return std::fabs(x) < 0x1p-126f ? 0.0f * x : x; }

float MulAdd(float a, float b, float sum) { return Flush(std::fma(a, b, sum)); }

float Element(int tile, int row, int index) {
  uint16_t bits;
  std::memcpy(&bits, tiles[tile][row] + index * 2, 2);
  return Flush(Bf16ToFloat(bits));
}

template <typename T>
int Byte(int tile, int row, int index) {
  return static_cast<T>(tiles[tile][row][index]);
}

// Adds to each element of a tile what `product(row, column, element)` returns.
template <typename T, typename Product>
void AddToTile(int tile, const Product& product) {
  for (int row = 0; row < config.rows[tile]; ++row) {
    for (int column = 0; column < config.row_bytes[tile] / 4; ++column) {
      std::byte* const place = tiles[tile][row] + column * 4;
      T value;
      std::memcpy(&value, place, 4);
      value = product(row, column, value);
      std::memcpy(place, &value, 4);
    }
  }
}

template <typename Column>
void AddByteProducts(int to, int a, int b) {
  const int quads = config.row_bytes[a] / 4;
  AddToTile<int32_t>(to, [=](int row, int column, int32_t sum) {
    for (int k = 0; k < quads; ++k) {
      for (int i = 0; i < 4; ++i) {
        sum += Byte<int8_t>(a, row, k * 4 + i) *
               Byte<Column>(b, k, column * 4 + i);
      }
    }
    return sum;
  });
}

}  // namespace

void ModelTiles::LoadConfig(const void* wanted) {
  std::memcpy(&config, wanted, sizeof(config));
  std::memset(tiles, 0, sizeof(tiles));
}

void ModelTiles::ZeroTile(int tile) {
  std::memset(tiles[tile], 0, sizeof(tiles[tile]));
}

void ModelTiles::LoadTile(int tile, const std::byte* p, int64_t row_stride) {
  ZeroTile(tile);
  for (int row = 0; row < config.rows[tile]; ++row) {
    std::memcpy(tiles[tile][row], p + row * row_stride, config.row_bytes[tile]);
  }
}

void ModelTiles::StoreTile(int tile, std::byte* p, int64_t row_stride) {
  for (int row = 0; row < config.rows[tile]; ++row) {
    std::memcpy(p + row * row_stride, tiles[tile][row], config.row_bytes[tile]);
  }
}

void ModelTiles::AddProducts(int to, int a, int b) {
  const int pairs = config.row_bytes[a] / 4;
  AddToTile<float>(to, [=](int row, int column, float sum) {
    float even = 0, odd = 0;
    for (int k = 0; k < pairs; ++k) {
      even = MulAdd(Element(a, row, 2 * k), Element(b, k, 2 * column), even);
      odd = MulAdd(Element(a, row, 2 * k + 1), Element(b, k, 2 * column + 1),
                   odd);
    }
    return Flush(sum + Flush(even + odd));
  });
}

void ModelTiles::AddProductsOfBytes(int to, int a, int b) {
  AddByteProducts<int8_t>(to, a, b);
}

void ModelTiles::AddProductsOfUnsignedBytes(int to, int a, int b) {
  AddByteProducts<uint8_t>(to, a, b);
}

}  // namespace espalier::nn
