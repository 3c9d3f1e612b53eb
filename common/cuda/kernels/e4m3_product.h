#ifndef ESPALIER_COMMON_CUDA_KERNELS_E4M3_PRODUCT_H_
#define ESPALIER_COMMON_CUDA_KERNELS_E4M3_PRODUCT_H_

#include "common/cuda/kernels/product.h"

namespace espalier::cuda {
namespace {

// The product with weights in e4m3. They are streamed as such, and widened to
// bf16, which is exact, in the registers from which the tensor cores read them.

// Steps of 16 inputs whose weights a thread holds at a time, eight numbers of
// each: what the sums leave room for.
DEVICE constexpr int HeldSteps(int rows) { return rows < 256 ? 4 : 2; }

template <int kPieces>
DEVICE void WidenPieces(const Piece (&codes)[kPieces],
                        uint32_t (&held)[2 * kPieces][4]) {
#pragma unroll
  for (int k = 0; k < 2 * kPieces; ++k) {
    const uint32_t* const words = codes[k / 2].words + k % 2 * 2;
    WidenE4m3(words[0], held[k][0], held[k][1]);
    WidenE4m3(words[1], held[k][2], held[k][3]);
  }
}

// By a warpgroup: its strip times the rows, over all tiles of the part. A
// thread widens weights when all products have ended, for what they read from
// registers must not change before. Meanwhile another warpgroup multiplies.
template <int kRows, typename Ring>
DEVICE void MultiplyE4m3Tiles(const ProductPart& part, const Ring& ring,
                              float (&sums)[kRows / 2]) {
  constexpr int kStep = RowsAtOnce(kRows), kHeld = HeldSteps(kRows);
  uint32_t held[kHeld][4];
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < part.tiles; ++tile) {
    const uint32_t rows = SharedAddress(ring.Rows(tile));
    BarrierWait(&ring.full[tile % Ring::kStages], tile / Ring::kStages & 1);
    const Piece* const pieces =
        reinterpret_cast<const Piece*>(ring.Strip(tile, threadIdx.x / 128)) +
        threadIdx.x % 128;
#pragma unroll 1
    for (int first = 0; first < kTileColumns / 16; first += kHeld) {
      Piece codes[kHeld / 2];
#pragma unroll
      for (int i = 0; i < kHeld / 2; ++i) {
        codes[i] = pieces[(first / 2 + i) * 128];
      }
      GroupWait<0>();
      if (first == 0 && tile > 0 && threadIdx.x % 32 == 0) {
        BarrierArrive(&ring.empty[(tile - 1) % Ring::kStages]);
      }
      WidenPieces(codes, held);
      HoldFactors(held);
      GroupFence();
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
#pragma unroll
        for (int row = 0; row < kRows; row += kStep) {
          GroupMultiplyHeld<kStep>(
              sums + row / 2, held[k],
              TileDescriptor(rows + row * kTileRowBytes + (first + k) * 32));
        }
      }
      GroupCommit();
    }
  }
  GroupWait<0>();
  HoldSums(sums);
}

// By a warpgroup.
template <int kRows>
DEVICE void ScaleSums(const ProductArgs& args, const ProductPart& part,
                      float (&sums)[kRows / 2]) {
  const int output = part.FirstOutput();
  const float scales[2] = {args.scales[output], args.scales[output + 8]};
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] *= scales[i / 2 % 2];
}

// Grid: as Product.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    E4m3Product(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  const ProductRing<kGroups, kRows, kE4m3TileBytes> ring(shared);
  const ProductPart part(args, kGroups);
  if (!StartProduct<kGroups>(args, part, ring)) return;
  float sums[kRows / 2];
  MultiplyE4m3Tiles<kRows>(part, ring, sums);
  ScaleSums<kRows>(args, part, sums);
  WaitForPrevious();
  WriteSums<kRows>(args, part, sums);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_E4M3_PRODUCT_H_
