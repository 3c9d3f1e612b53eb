#ifndef ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_

#include "common/cuda/group_multiply.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_parts.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {
namespace {

// A block multiplies kGroups strips of weights by a block of kRows rows, over
// one range of the inputs, and then others. Its last warp has one thread bring
// tiles, through a ring of stages, which runs on from part to part; a warpgroup
// multiplies each strip. kWeightBytes: of a tile.
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
  // at: of a tile, among all that the block multiplies.
  DEVICE unsigned char* Strip(int at, int group) const {
    return stages + at % kStages * kStageBytes + group * kWeightTile;
  }
  DEVICE unsigned char* Rows(int at) const { return Strip(at, kGroups); }
  DEVICE void AwaitFull(int at) const {
    BarrierWait(&full[at % kStages], at / kStages & 1);
  }
  // Until the stage's tile before has been read.
  DEVICE void AwaitEmpty(int at) const {
    if (at < kStages) return;
    BarrierWait(&empty[at % kStages], (at / kStages - 1) & 1);
  }
  // Gives the stage of a tile back. Called by a lane of each warp.
  DEVICE void GiveBack(int at) const { BarrierArrive(&empty[at % kStages]); }
};

// A part of the product, which a block computes before it takes another.
struct ProductPart {
  int first_strip, strips, split, row_block;
  int first_tile, tiles;  // of the inputs

  DEVICE ProductPart(const ProductArgs& args, int groups, int part,
                     int block_of_rows) {
    const int splits = SplitsOf(args);
    const int all_strips = args.outputs / kStripOutputs;
    const int all_tiles = args.inputs / kTileColumns;
    first_strip = part / splits * groups;
    strips =
        all_strips - first_strip < groups ? all_strips - first_strip : groups;
    split = part % splits;
    row_block = block_of_rows;
    first_tile = all_tiles * split / splits;
    tiles = all_tiles * (split + 1) / splits - first_tile;
  }
  // Returns whether this thread's warpgroup has one.
  DEVICE bool HasStrip() const {
    const int group = threadIdx.x / 128;
    return group < strips;
  }
  // Returns the first of this thread's two outputs, which are eight apart.
  DEVICE int FirstOutput() const {
    const int strip = first_strip + threadIdx.x / 128;
    return strip * kStripOutputs + threadIdx.x % 128 / 32 * 16 +
           threadIdx.x % 32 / 4;
  }
};

// Calls act(part, before) for the parts of this block, in their order.
// `before`: how many tiles it has multiplied before the part.
template <int kGroups, typename Act>
DEVICE void ForParts(const ProductArgs& args, Act act) {
  const int parts = ProductParts(args, kGroups);
  int before = 0;
  for (int i = blockIdx.y; i < parts; i += gridDim.y) {
    const ProductPart part(args, kGroups, i, blockIdx.x);
    act(part, before);
    before += part.tiles;
  }
}

// Brings the tiles of a part, in their order. Called by one thread.
template <typename Ring>
DEVICE void BringTiles(const ProductArgs& args, const ProductPart& part,
                       int before, const Ring& ring) {
  const int64_t all_tiles = args.inputs / kTileColumns;
  const unsigned char* const weights =
      args.weights +
      (part.first_strip * all_tiles + part.first_tile) * Ring::kWeightTile;
  const unsigned char* const rows =
      args.activations +
      (part.row_block * all_tiles + part.first_tile) * Ring::kRowTileBytes;
  const auto bring_weights = [&](int tile) {
    const int at = before + tile;
    uint64_t* const full = &ring.full[at % Ring::kStages];
    BarrierArriveExpect(full,
                        part.strips * Ring::kWeightTile + Ring::kRowTileBytes);
    for (int strip = 0; strip < part.strips; ++strip) {
      unsigned char* const to = ring.Strip(at, strip);
      const unsigned char* const from =
          weights + (strip * all_tiles + tile) * Ring::kWeightTile;
      if (args.weights_leave_cache) {
        BulkCopyOnce(to, from, Ring::kWeightTile, full);
      } else {
        BulkCopy(to, from, Ring::kWeightTile, full);
      }
    }
  };
  // The first weights wait for nobody: they fill the ring while the kernel
  // before still works on the rows.
  int ahead = 0;
  if (before == 0) {
    ahead = part.tiles < Ring::kStages ? part.tiles : Ring::kStages;
    for (int tile = 0; tile < ahead; ++tile) bring_weights(tile);
    WaitForPrevious();
  }
  for (int tile = 0; tile < part.tiles; ++tile) {
    const int at = before + tile;
    if (tile >= ahead) {
      ring.AwaitEmpty(at);
      bring_weights(tile);
    }
    BulkCopy(ring.Rows(at), rows + int64_t{tile} * Ring::kRowTileBytes,
             Ring::kRowTileBytes, &ring.full[at % Ring::kStages]);
  }
}

// Gives back the stages of a part that has no strip for this warpgroup.
template <typename Ring>
DEVICE void PassTiles(const ProductPart& part, int before, const Ring& ring) {
  if (threadIdx.x % 32 == 0) {
    for (int at = before; at < before + part.tiles; ++at) {
      ring.AwaitFull(at);
      ring.GiveBack(at);
    }
  }
  __syncwarp();
}

// sums[64 x kRows] += weights[64 x 16] rows[kRows x 16]^T, by instructions of
// at most kWidest rows, which change no bit.
template <int kRows, int kWidest>
DEVICE void MultiplyRows(float* sums, uint64_t weights, uint64_t rows) {
  if constexpr (kRows <= kWidest) {
    GroupMultiply<kRows>(sums, weights, rows);
  } else {
    GroupMultiply<kWidest>(sums, weights, rows);
    MultiplyRows<kRows - kWidest, kWidest>(
        sums + kWidest / 2, weights, rows + (kWidest * kTileRowBytes >> 4));
  }
}

// A warpgroup's tiles of a part, in a ring, after so many others.
template <typename Ring>
class TilesInRing {
 public:
  DEVICE TilesInRing(const ProductPart& part, int before, const Ring& ring)
      : ring_(ring), count_(part.tiles), before_(before) {}

  DEVICE int count() const { return count_; }
  DEVICE void Wait(int tile) const { ring_.AwaitFull(before_ + tile); }
  DEVICE const unsigned char* Weights(int tile) const {
    return ring_.Strip(before_ + tile, threadIdx.x / 128);
  }
  DEVICE const unsigned char* Rows(int tile) const {
    return ring_.Rows(before_ + tile);
  }
  DEVICE void GiveBack(int tile) const {
    if (threadIdx.x % 32 == 0) ring_.GiveBack(before_ + tile);
  }

 private:
  const Ring& ring_;
  const int count_, before_;
};

// Multiplies a warpgroup's strip by the rows, over all tiles of a part,
// wherever these are brought: TilesInRing, or as that.
template <int kRows, int kWidest, typename Tiles>
DEVICE void MultiplyTiles(const Tiles& tiles, float (&sums)[kRows / 2]) {
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < tiles.count(); ++tile) {
    const uint32_t strip = SharedAddress(tiles.Weights(tile));
    const uint32_t rows = SharedAddress(tiles.Rows(tile));
    tiles.Wait(tile);
    GroupFence();
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
      MultiplyRows<kRows, kWidest>(sums, TileDescriptor(strip + k * 32),
                                   TileDescriptor(rows + k * 32));
    }
    GroupCommit();
    // The tile before has been read by now; this one goes on.
    GroupWait<1>();
    if (tile > 0) tiles.GiveBack(tile - 1);
  }
  GroupWait<0>();
  tiles.GiveBack(tiles.count() - 1);
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
// each of its rows. row_blocks: of the product.
template <int kRows>
DEVICE void WriteSums(const ProductArgs& args, const ProductPart& part,
                      uint32_t row_blocks, const float (&sums)[kRows / 2]) {
  int lane = threadIdx.x % 32;
  HoldNumber(lane);
  const int output = part.FirstOutput();
  const int64_t padded_rows = int64_t{row_blocks} * kRows;
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

// All threads have the registers that they were launched with.
struct EqualRegisters {
  DEVICE static void Take() {}   // by a warpgroup that multiplies
  DEVICE static void Leave() {}  // by that which brings tiles
};

// Starts a product. Called by all threads. The first one after the warpgroups
// that multiply brings the tiles. True: this thread is of such a warpgroup.
template <int kGroups, typename Registers, typename Ring>
DEVICE bool StartProduct(const ProductArgs& args, const Ring& ring) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.kStages; ++i) {
      BarrierInit(&ring.full[i], 1);
      BarrierInit(&ring.empty[i], kGroups * 4);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  DependentsMayLaunch();
  if (threadIdx.x / 128 < kGroups) {
    Registers::Take();
    return true;
  }
  Registers::Leave();
  if (threadIdx.x % 128 == 0) {
    ForParts<kGroups>(args, [&](const ProductPart& part, int before) {
      BringTiles(args, part, before, ring);
    });
  }
  return false;
}

template <int kGroups, int kRows, int kWidest = kWidestMultiply,
          typename Registers = EqualRegisters>
DEVICE void RunProduct(const ProductArgs& args, unsigned char* shared) {
  const ProductRing<kGroups, kRows, kWeightTileBytes> ring(shared);
  if (!StartProduct<kGroups, Registers>(args, ring)) return;
  ForParts<kGroups>(args, [&](const ProductPart& part, int before) {
    if (!part.HasStrip()) return PassTiles(part, before, ring);
    float sums[kRows / 2];
    MultiplyTiles<kRows, kWidest>(TilesInRing(part, before, ring), sums);
    WaitForPrevious();
    WriteSums<kRows>(args, part, gridDim.x, sums);
  });
}

// Grid: blocks of rows, at most ProductParts. Blocks of threads begin in the
// order of the grid, so that those which multiply other rows by the same
// weights read them at about the same time: once from memory.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    Product(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  RunProduct<kGroups, kRows>(args, shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PRODUCT_H_
