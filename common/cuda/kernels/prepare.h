#ifndef ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kPrepareWarps = 4;

// A head of a row in the registers of a warp: a lane has the same places of
// both halves, which rotation pairs.
template <int kDim>
struct Head {
  static constexpr int kPairs = kDim / 64;
  float halves[2][kPairs];

  DEVICE static int Place(int half, int pair) {
    return half * (kDim / 2) + threadIdx.x % 32 * kPairs + pair;
  }

  DEVICE void Norm(const float* weight, float epsilon) {
    float sum = 0;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < kPairs; ++i) {
        sum = fmaf(halves[half][i], halves[half][i], sum);
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(~0u, sum, lanes);
    }
    const float scale = InverseSqrt(sum / kDim + epsilon);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < kPairs; ++i) {
        halves[half][i] = halves[half][i] * scale * weight[Place(half, i)];
      }
    }
  }

  // angles: [kDim / 2, 2] cos, sin
  DEVICE void Turn(const float* angles) {
    for (int i = 0; i < kPairs; ++i) {
      const float cos = angles[2 * Place(0, i)];
      const float sin = angles[2 * Place(0, i) + 1];
      const float a = halves[0][i], b = halves[1][i];
      halves[0][i] = a * cos - b * sin;
      halves[1][i] = b * cos + a * sin;
    }
  }

  DEVICE static bf16_t Rounded(float x) {
    return static_cast<bf16_t>(PackBf16(x, 0) & 0xffff);
  }
};

// Grid: rows, heads / kPrepareWarps. A warp for each head of a row.
template <int kDim>
__global__ void __launch_bounds__(kPrepareWarps * 32)
    Prepare(const __grid_constant__ PrepareArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y * kPrepareWarps + threadIdx.x / 32;
  if (head >= args.heads + 2 * args.kv_heads) return;  // whole warps
  const bool is_query = head < args.heads;
  const bool is_value = head >= args.heads + args.kv_heads;

  Head<kDim> x;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < x.kPairs; ++i) {
      x.halves[half][i] =
          AddParts(args.parts, row, head * kDim + x.Place(half, i), 0);
    }
  }
  const PassRow place = args.rows[row];
  if (!is_value) {
    const float* const norm = is_query ? args.query_norm : args.key_norm;
    if (norm != nullptr) x.Norm(norm, args.epsilon);
    x.Turn(args.angles + int64_t{place.position} * kDim);
  }
  if (is_query) {
    bf16_t* const to = args.queries + (row * args.heads + head) * kDim;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < x.kPairs; ++i) {
        to[x.Place(half, i)] = x.Rounded(x.halves[half][i]);
      }
    }
    return;
  }
  const int kv_head = (head - args.heads) % args.kv_heads;
  const int page =
      args.kv.page_table[args.sequences[place.sequence].table_begin +
                         place.slot / kPagePositions];
  unsigned char* const panel =
      args.kv.pages + page * args.kv.page_bytes +
      PanelOffset(kDim, args.kv_heads, 0, kv_head, is_value);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < x.kPairs; ++i) {
      const int at = x.Place(half, i);
      *reinterpret_cast<bf16_t*>(
          panel + PanelPlace(kDim, place.slot % kPagePositions, at / 8) +
          at % 8 * 2) = x.Rounded(x.halves[half][i]);
    }
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
