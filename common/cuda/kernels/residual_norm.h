#ifndef ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

// A thread stores a row's quad.
DEVICE void WriteNormed(const ResidualNormArgs& args, int64_t row, int out_row,
                        int i, const Quad& value, const Quad& normed) {
  const Vector<uint32_t, 2> rounded = RoundedQuad(normed);
  const int64_t at = row * args.hidden + i;
  if (args.normed != nullptr) StoreVector(args.normed + at, normed);
  if (args.out != nullptr && out_row >= 0) {
    StoreVector(reinterpret_cast<uint32_t*>(
                    args.out +
                    ActivationPlace(args.out_block, args.hidden, out_row, i)),
                rounded);
  }
  if (args.tap != nullptr) {
    StoreVector(reinterpret_cast<uint32_t*>(args.tap + at), RoundedQuad(value));
  }
  if (args.normed_tap != nullptr) {
    StoreVector(reinterpret_cast<uint32_t*>(args.normed_tap + at), rounded);
  }
}

// A thread's quads of what is added to a row: parts, normed by themselves.
// `sums`: as of NormFactor.
template <int kQuads, int kMaxThreads>
DEVICE void LoadAdded(const ResidualNormArgs& args, int64_t row, float* sums,
                      Quad (&added)[kQuads]) {
  float sum = 0;
  ForQuads<kQuads, kMaxThreads>(args.hidden, [&](int k, int i) {
    AddParts(args.parts, row, i, added[k]);
    sum = SumOfSquares(added[k], sum);
  });
  const float scale =
      NormFactor<kMaxThreads>(sum, sums, args.hidden, args.epsilon);
  ForQuads<kQuads, kMaxThreads>(args.hidden, [&](int k, int i) {
    const Quad weight = LoadVector<4>(args.added_weight + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      added[k].of[j] = added[k].of[j] * scale * weight.of[j];
    }
  });
}

template <int kQuads, bool kNormsAdded, int kMaxThreads = kMaxNormThreads>
DEVICE void RunResidualNorm(const ResidualNormArgs& args,
                            unsigned char* shared) {
  DependentsMayLaunch();
  Quad weight[kQuads] = {}, values[kQuads] = {};
  const auto load_weight = [&](int k, int i) {
    weight[k] = LoadVector<4>(args.weight + i);
  };
  // Early, unless the registers are for the row.
  constexpr bool kEarly = kQuads <= 2;
  if constexpr (kEarly) ForQuads<kQuads, kMaxThreads>(args.hidden, load_weight);
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const int out_row = args.out_rows == nullptr ? row : args.out_rows[row];
  float* const x = args.x + row * args.hidden;
  float* const sums = reinterpret_cast<float*>(shared);
  if constexpr (kNormsAdded) {
    LoadAdded<kQuads, kMaxThreads>(
        args, row, sums + NormThreads(args.hidden, kMaxThreads) / 32, values);
  }
  float sum = 0;
  ForQuads<kQuads, kMaxThreads>(args.hidden, [&](int k, int i) {
    const Quad added = values[k];
    values[k] = LoadVector<4>(x + i);
    if constexpr (kNormsAdded) {
#pragma unroll
      for (int j = 0; j < 4; ++j) values[k].of[j] += added.of[j];
    } else {
      AddParts(args.parts, row, i, values[k]);
    }
    sum = SumOfSquares(values[k], sum);
  });
  const float scale =
      NormFactor<kMaxThreads>(sum, sums, args.hidden, args.epsilon);
  ForQuads<kQuads, kMaxThreads>(args.hidden, [&](int k, int i) {
    if constexpr (!kEarly) load_weight(k, i);
    StoreVector(x + i, values[k]);
    Quad normed;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      normed.of[j] = values[k].of[j] * scale * weight[k].of[j];
    }
    WriteNormed(args, row, out_row, i, values[k], normed);
  });
}

// Grid: rows. Threads: NormThreads. Shared memory: two sums for each warp.
template <int kQuads, bool kNormsAdded>
__global__ void __launch_bounds__(kMaxNormThreads, 1)
    ResidualNorm(const __grid_constant__ ResidualNormArgs args) {
  SHARED_MEMORY(shared);
  RunResidualNorm<kQuads, kNormsAdded>(args, shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_
