#ifndef ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kPrepareWarps = 4;

// A head of a row in the registers of a warp: a lane has the same places of
// both halves, which rotation pairs.
template <int kDim>
struct Head {
  static constexpr int kPairs = kDim / 64;
  using Pairs = Vector<float, kPairs>;
  Pairs halves[2];

  DEVICE static int Place(int half) {
    return half * (kDim / 2) + threadIdx.x % 32 * kPairs;
  }

  // The sums of a product's parts, as AddParts.
  DEVICE void Load(const Parts& parts, int64_t row, int head) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) halves[0].of[i] = halves[1].of[i] = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      AddParts(parts, row, head * kDim + Place(half), halves[half]);
    }
  }

  DEVICE void Norm(const Pairs (&weight)[2], float epsilon) {
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        sum = fmaf(halves[half].of[i], halves[half].of[i], sum);
      }
    }
    const float scale = InverseSqrt(WarpSum(sum) / kDim + epsilon);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        halves[half].of[i] = halves[half].of[i] * scale * weight[half].of[i];
      }
    }
  }

  // angles: of each pair cos, sin
  DEVICE void Turn(const Vector<float, 2 * kPairs>& angles) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float cos = angles.of[2 * i], sin = angles.of[2 * i + 1];
      const float a = halves[0].of[i], b = halves[1].of[i];
      halves[0].of[i] = a * cos - b * sin;
      halves[1].of[i] = b * cos + a * sin;
    }
  }

  // Returns a half, rounded.
  DEVICE Vector<bf16_t, kPairs> Rounded(int half) const {
    Vector<bf16_t, kPairs> rounded;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      rounded.of[i] =
          static_cast<bf16_t>(PackBf16(halves[half].of[i], 0) & 0xffff);
    }
    return rounded;
  }
};

// Grid: rows, layers * heads / kPrepareWarps. A warp for each head of a row.
// What no kernel writes is read before the product has ended. The attention may
// begin when it has: until this ends, it reads what this does not write.
template <int kDim>
__global__ void __launch_bounds__(kPrepareWarps * 32)
    Prepare(const __grid_constant__ PrepareArgs args) {
  const int64_t row = blockIdx.x;
  const int output_head = blockIdx.y * kPrepareWarps + threadIdx.x / 32;
  const int layer_heads = args.heads + 2 * args.kv_heads;
  const int layer = output_head / layer_heads;
  const int head = output_head % layer_heads;
  const bool is_there = layer < args.layers;  // whole warps
  const bool is_query = head < args.heads;
  const bool is_value = head >= args.heads + args.kv_heads;
  const bool is_normed =
      is_there && (is_query ? args.query_norm : args.key_norm) != nullptr;

  Head<kDim> x;
  const PassRow place = args.rows[row];
  const int page =
      args.kv.page_table[args.sequences[place.sequence].table_begin +
                         place.slot / kPagePositions];
  const auto angles = LoadVector<2 * x.kPairs>(
      args.angles + int64_t{place.position} * kDim + 2 * x.Place(0));
  typename Head<kDim>::Pairs weight[2] = {};
  if (is_normed) {
    const float* const norm =
        is_query ? args.query_norm : args.key_norm + layer * kDim;
    weight[0] = LoadVector<x.kPairs>(norm + x.Place(0));
    weight[1] = LoadVector<x.kPairs>(norm + x.Place(1));
  }
  WaitForPrevious();
  DependentsMayLaunch();
  if (!is_there) return;
  x.Load(args.parts, row, output_head);
  if (!is_value) {
    if (is_normed) x.Norm(weight, args.epsilon);
    x.Turn(angles);
  }
  if (is_query) {
    bf16_t* const to = args.queries + (row * args.heads + head) * kDim;
    for (int half = 0; half < 2; ++half) {
      StoreVector(to + x.Place(half), x.Rounded(half));
    }
    return;
  }
  const int kv_head = (head - args.heads) % args.kv_heads;
  unsigned char* const panel =
      args.kv.pages + page * args.kv.page_bytes +
      PanelOffset(kDim, args.kv_heads, layer, kv_head, is_value);
  for (int half = 0; half < 2; ++half) {
    const int at = x.Place(half);
    StoreVector(
        reinterpret_cast<bf16_t*>(
            panel + PanelPlace(kDim, place.slot % kPagePositions, at / 8)) +
            at % 8,
        x.Rounded(half));
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
