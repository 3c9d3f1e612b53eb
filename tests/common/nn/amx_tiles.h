#ifndef ESPALIER_TESTS_COMMON_NN_AMX_TILES_H_
#define ESPALIER_TESTS_COMMON_NN_AMX_TILES_H_

#include <cstddef>
#include <cstdint>

#include "common/nn/amx_inl.h"

namespace espalier::nn {

// AMX's tiles in software, after the operation sections of Intel's manual.
// TDPBF16PS: in one step, even and odd inputs are summed apart, their sums
// are added, and that to the tile. Subnormal numbers count as zero. TDPBSSD:
// four products of signed bytes are added to an integer. Like on a CPU, every
// thread has its own tiles.
class ModelTiles {
 public:
  static void Configure(const AmxConfig& config) { LoadConfig(&config); }
  static void Release() { Configure(AmxConfig{.palette = 0}); }

  template <int T>
  static void Zero() {
    ZeroTile(T);
  }
  template <int T>
  static void Load(const void* p, int64_t row_stride) {
    LoadTile(T, static_cast<const std::byte*>(p), row_stride);
  }
  template <int T>
  static void Store(void* p, int64_t row_stride) {
    StoreTile(T, static_cast<std::byte*>(p), row_stride);
  }
  template <int Sum, int A, int B>
  static void MultiplyAdd() {
    AddProducts(Sum, A, B);
  }
  template <int Sum, int A, int B>
  static void MultiplyAddBytes() {
    AddProductsOfBytes(Sum, A, B);
  }
  template <int Sum, int A, int B>
  static void MultiplyAddUnsigned() {
    AddProductsOfUnsignedBytes(Sum, A, B);
  }

 private:
  // `config`: an AmxConfig; each file that includes it has its own type.
  static void LoadConfig(const void* config);
  static void ZeroTile(int tile);
  static void LoadTile(int tile, const std::byte* p, int64_t row_stride);
  static void StoreTile(int tile, std::byte* p, int64_t row_stride);
  static void AddProducts(int sum, int a, int b);
  static void AddProductsOfBytes(int sum, int a, int b);
  static void AddProductsOfUnsignedBytes(int sum, int a, int b);
};

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_AMX_TILES_H_
