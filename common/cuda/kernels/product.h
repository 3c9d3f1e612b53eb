#ifndef ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_

#include "common/cuda/group_multiply.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {
namespace {

// A block multiplies kGroups strips of weights by a block of kRows rows, over
// one range of the inputs. Its last warp has one thread bring tiles, through a
// ring of stages; a warpgroup multiplies each strip. kWeightBytes: of a tile.
template <int kGroups, int kRows, int kWeightBytes>
struct ProductRing {
  static constexpr int kWeightTile = kWeightBytes;
  static constexpr int kRowTileBytes = kRows * kTileRowBytes;
  static constexpr int kStageBytes = kGroups * kWeightTile + kRowTileBytes;
  static constexpr int kMaxShared = 227 << 10;
  static constexpr int kWantedStages = 8 * kWeightTileBytes / kWeightTile;
  static constexpr int kStages = kMaxShared / (kStageBytes + 16) < kWantedStages
                                     ? kMaxShared / (kStageBytes + 16)
                                     : kWantedStages;
  static constexpr int kSharedBytes = kStages * (kStageBytes + 16);
  static constexpr int kThreads = kGroups * 128 + 32;

  unsigned char* stages;
  uint64_t* full;   // [kStages] tiles are there
  uint64_t* empty;  // [kStages] all warps have read them

  DEVICE explicit ProductRing(unsigned char* shared)
      : stages(shared),
        full(reinterpret_cast<uint64_t*>(shared + kStages * kStageBytes)),
        empty(full + kStages) {}
  DEVICE unsigned char* Strip(int tile, int group) const {
    return stages + tile % kStages * kStageBytes + group * kWeightTile;
  }
  DEVICE unsigned char* Rows(int tile) const { return Strip(tile, kGroups); }
};

// The part of the product that a block of the grid computes.
struct ProductPart {
  int first_strip, strips, split, row_block;
  int first_tile, tiles;  // of the inputs

  DEVICE ProductPart(const ProductArgs& args, int groups)
      : ProductPart(args, groups, blockIdx.x, blockIdx.y) {}
  DEVICE ProductPart(const ProductArgs& args, int groups, int block,
                     int block_of_rows) {
    const int splits = SplitsOf(args);
    const int all_strips = args.outputs / kStripOutputs;
    const int all_tiles = args.inputs / kTileColumns;
    first_strip = block / splits * groups;
    strips =
        all_strips - first_strip < groups ? all_strips - first_strip : groups;
    split = block % splits;
    row_block = block_of_rows;
    first_tile = all_tiles * split / splits;
    tiles = all_tiles * (split + 1) / splits - first_tile;
  }
  // Returns the first of this thread's two outputs, which are eight apart.
  DEVICE int FirstOutput() const {
    const int strip = first_strip + threadIdx.x / 128;
    return strip * kStripOutputs + threadIdx.x % 128 / 32 * 16 +
           threadIdx.x % 32 / 4;
  }
};

// Brings the tiles of a part, in their order. Called by one thread.
template <typename Ring>
DEVICE void BringTiles(const ProductArgs& args, const ProductPart& part,
                       const Ring& ring) {
  const int64_t all_tiles = args.inputs / kTileColumns;
  const unsigned char* const weights =
      args.weights +
      (part.first_strip * all_tiles + part.first_tile) * Ring::kWeightTile;
  const unsigned char* const rows =
      args.activations +
      (part.row_block * all_tiles + part.first_tile) * Ring::kRowTileBytes;
  const auto bring_weights = [&](int tile) {
    uint64_t* const full = &ring.full[tile % Ring::kStages];
    BarrierArriveExpect(full,
                        part.strips * Ring::kWeightTile + Ring::kRowTileBytes);
    for (int strip = 0; strip < part.strips; ++strip) {
      BulkCopy(ring.Strip(tile, strip),
               weights + (strip * all_tiles + tile) * Ring::kWeightTile,
               Ring::kWeightTile, full);
    }
  };
  // Weights wait for nobody: they fill the ring while the kernel before still
  // works on the rows.
  const int ahead = part.tiles < Ring::kStages ? part.tiles : Ring::kStages;
  for (int tile = 0; tile < ahead; ++tile) bring_weights(tile);
  WaitForPrevious();
  for (int tile = 0; tile < part.tiles; ++tile) {
    if (tile >= Ring::kStages) {
      BarrierWait(&ring.empty[tile % Ring::kStages],
                  (tile / Ring::kStages - 1) & 1);
      bring_weights(tile);
    }
    BulkCopy(ring.Rows(tile), rows + int64_t{tile} * Ring::kRowTileBytes,
             Ring::kRowTileBytes, &ring.full[tile % Ring::kStages]);
  }
}

// Multiplies a warpgroup's strip by the rows, over all tiles of the part.
template <int kRows, typename Ring>
DEVICE void MultiplyTiles(const ProductPart& part, const Ring& ring,
                          float (&sums)[kRows / 2]) {
  const int group = threadIdx.x / 128;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < part.tiles; ++tile) {
    const uint32_t strip = SharedAddress(ring.Strip(tile, group));
    const uint32_t rows = SharedAddress(ring.Rows(tile));
    BarrierWait(&ring.full[tile % Ring::kStages], tile / Ring::kStages & 1);
    GroupFence();
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
      GroupMultiply<kRows>(sums, TileDescriptor(strip + k * 32),
                           TileDescriptor(rows + k * 32));
    }
    GroupCommit();
    // The tile before has been read by now; this one goes on.
    GroupWait<1>();
    if (tile > 0 && threadIdx.x % 32 == 0) {
      BarrierArrive(&ring.empty[(tile - 1) % Ring::kStages]);
    }
  }
  GroupWait<0>();
  HoldSums(sums);
}

// Returns what a gate makes of x, times the value, rounded. GELU by tanh is x
// times a sigmoid, too.
DEVICE bf16_t Gated(Gate gate, float x, float value) {
  constexpr float kLog2E = 1.44269504f, kTwoRoots = 1.59576912f;  // of 2 / pi
  const float at =
      gate == Gate::kSilu ? x : kTwoRoots * (x + 0.044715f * x * x * x);
  const float sigmoid = Reciprocal(1 + Exp2(-kLog2E * at));
  return static_cast<bf16_t>(PackBf16(x * sigmoid * value, 0) & 0xffff);
}

// Writes the sums of a warpgroup. Each thread has two outputs, eight apart, of
// each of its rows.
template <int kRows>
DEVICE void WriteSums(const ProductArgs& args, const ProductPart& part,
                      const float (&sums)[kRows / 2]) {
  const int lane = threadIdx.x % 32;
  const int output = part.FirstOutput();
  const int64_t padded_rows = int64_t{gridDim.y} * kRows;
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = part.row_block * kRows + 8 * j + 2 * (lane % 4) + i;
      const float first = sums[4 * j + i], second = sums[4 * j + 2 + i];
      if (row >= args.rows) continue;
      if (args.gated == nullptr) {
        float* const to = args.parts +
                          (part.split * padded_rows + row) * args.outputs +
                          output;
        to[0] = first;
        to[8] = second;
      } else {
        const int column = output / 16 * 8 + lane / 4;
        *reinterpret_cast<bf16_t*>(
            args.gated +
            ActivationPlace(kRows, args.outputs / 2, row, column)) =
            Gated(args.gate, first, second);
      }
    }
  }
}

// Starts a product. Called by all threads. The last warp brings the tiles.
// True: this thread is of a warpgroup that has a strip to multiply.
template <int kGroups, typename Ring>
DEVICE bool StartProduct(const ProductArgs& args, const ProductPart& part,
                         const Ring& ring) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.kStages; ++i) {
      BarrierInit(&ring.full[i], 1);
      BarrierInit(&ring.empty[i], part.strips * 4);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  DependentsMayLaunch();
  const int group = threadIdx.x / 128;
  if (group == kGroups) {
    if (threadIdx.x % 32 == 0) BringTiles(args, part, ring);
    return false;
  }
  return group < part.strips;
}

template <int kGroups, int kRows>
DEVICE void RunProduct(const ProductArgs& args, unsigned char* shared) {
  const ProductRing<kGroups, kRows, kWeightTileBytes> ring(shared);
  const ProductPart part(args, kGroups);
  if (!StartProduct<kGroups>(args, part, ring)) return;
  float sums[kRows / 2];
  MultiplyTiles<kRows>(part, ring, sums);
  WaitForPrevious();
  WriteSums<kRows>(args, part, sums);
}

// Grid: strips / kGroups * splits, blocks of rows.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    Product(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  RunProduct<kGroups, kRows>(args, shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_
