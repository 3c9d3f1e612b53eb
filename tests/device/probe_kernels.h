// A kernel for each wrapper of device.h and tensor_core.h, which does nothing
// but call it: what the GPU answers is compared with the wrapper's meaning.
#ifndef ESPALIER_TESTS_DEVICE_PROBE_KERNELS_H_
#define ESPALIER_TESTS_DEVICE_PROBE_KERNELS_H_

#include "common/cuda/counters.h"
#include "common/cuda/group_multiply.h"
#include "common/cuda/layout.h"
#include "tests/device/probes.h"

namespace espalier::cuda {
namespace {

template <typename T>
DEVICE const T* In(const ProbeArgs& args) {
  return reinterpret_cast<const T*>(args.in);
}
template <typename T>
DEVICE T* Out(const ProbeArgs& args) {
  return reinterpret_cast<T*>(args.out);
}

// in: [threads, 2] float; out: [threads]
__global__ void PackProbe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  const int i = threadIdx.x;
  Out<uint32_t>(args)[i] =
      PackBf16(In<float>(args)[2 * i], In<float>(args)[2 * i + 1]);
}

// in: [threads] bits; out: [threads]
__global__ void WidenProbe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  Out<float>(args)[threadIdx.x] = FromBf16(In<uint32_t>(args)[threadIdx.x]);
}

// in: [threads] codes; out: [threads, 2]
__global__ void WidenE4m3Probe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  uint32_t odd, even;
  WidenE4m3(In<uint32_t>(args)[threadIdx.x], odd, even);
  Out<uint32_t>(args)[2 * threadIdx.x] = odd;
  Out<uint32_t>(args)[2 * threadIdx.x + 1] = even;
}

// in: [threads]; out: [threads, 2] 2^x, 1 / sqrt(x)
__global__ void FunctionProbe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  const int i = threadIdx.x;
  const float x = In<float>(args)[i];
  Out<float>(args)[2 * i] = Exp2(x);
  Out<float>(args)[2 * i + 1] = InverseSqrt(x);
}

// in: kProbeShared bytes for shared memory, then [32] places of rows in it;
// out: [32, 4]
template <bool kTransposed>
__global__ void LoadProbe(const __grid_constant__ ProbeArgs args) {
  SHARED_MEMORY(shared);
  WaitForPrevious();
  const int lane = threadIdx.x;
  for (int i = lane; i < kProbeShared; i += 32) shared[i] = args.in[i];
  __syncthreads();
  const uint32_t place = In<uint32_t>(args)[kProbeShared / 4 + lane];
  uint32_t out[4];
  if constexpr (kTransposed) {
    LoadMatricesTransposed(SharedAddress(shared) + place, out);
  } else {
    LoadMatrices(SharedAddress(shared) + place, out);
  }
  for (int i = 0; i < 4; ++i) Out<uint32_t>(args)[4 * lane + i] = out[i];
}

// in: WarpProbeInput; out: [32, 4]
__global__ void WarpMultiplyProbe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  const WarpProbeInput& in = *In<WarpProbeInput>(args);
  const int lane = threadIdx.x;
  float sums[4];
  uint32_t a[4];
  for (int i = 0; i < 4; ++i) {
    sums[i] = in.sums[lane][i];
    a[i] = in.a[lane][i];
  }
  Multiply16x8x16(sums, a, in.b[lane][0], in.b[lane][1]);
  for (int i = 0; i < 4; ++i) Out<float>(args)[4 * lane + i] = sums[i];
}

// A thread's part of 16 columns of a tile of 64 rows.
DEVICE void HoldPart(const unsigned char* tile, int step, uint32_t (&held)[4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = warp * 16 + lane / 4 + i % 2 * 8;
    const int column = step * 16 + i / 2 * 8 + lane % 4 * 2;
    held[i] = *reinterpret_cast<const uint32_t*>(tile + TilePlace(row, column));
  }
}

// in: a tile of 64 rows, then one of kN; out: [64, kN]. kHeld: the first from
// registers.
template <int kN, bool kHeld>
__global__ void __launch_bounds__(128)
    GroupMultiplyProbe(const __grid_constant__ ProbeArgs args) {
  SHARED_MEMORY(shared);
  constexpr int kBytes = (64 + kN) * kTileRowBytes;
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared + kBytes);
  WaitForPrevious();
  if (threadIdx.x == 0) {
    BarrierInit(full, 1);
    FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    BarrierArriveExpect(full, kBytes);
    BulkCopy(shared, args.in, kBytes, full);
  }
  BarrierWait(full, 0);
  float sums[kN / 2];
  for (int i = 0; i < kN / 2; ++i) sums[i] = 0;
  uint32_t held[kTileColumns / 16][4];
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) HoldPart(shared, k, held[k]);
  HoldSums(sums);
  HoldFactors(held);
  GroupFence();
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) {
    const uint64_t b =
        TileDescriptor(SharedAddress(shared) + 64 * kTileRowBytes + k * 32);
    if constexpr (kHeld) {
      GroupMultiplyHeld<kN>(sums, held[k], b);
    } else {
      GroupMultiply<kN>(sums, TileDescriptor(SharedAddress(shared) + k * 32),
                        b);
    }
  }
  GroupCommit();
  GroupWait<0>();
  HoldSums(sums);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) {
    const int row = threadIdx.x / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
    Out<float>(args)[row * kN + column] = sums[i];
  }
}

// in: [threads] whole numbers; out: [threads] the sum of kProbeHeld numbers
// from that on, which are all held at once; of the last warpgroup, which leaves
// the others its registers, the number.
__global__ void __launch_bounds__(kProbeGroups * 128, 1)
    RegistersProbe(const __grid_constant__ ProbeArgs args) {
  WaitForPrevious();
  const float number = In<float>(args)[threadIdx.x];
  float sum = 0;
  if (threadIdx.x / 128 + 1 == kProbeGroups) {
    KeepRegisters<32>();
    sum = number;
  } else {
    TakeRegisters<160>();
    float held[kProbeHeld];
#pragma unroll
    for (int i = 0; i < kProbeHeld; ++i) held[i] = number + i;
    HoldSums(held);
#pragma unroll
    for (int i = 0; i < kProbeHeld; ++i) sum += held[i];
  }
  Out<float>(args)[threadIdx.x] = sum;
}

// in: [kProbePhases, threads]; out: the same. Each phase copies a part, half of
// it after a hint.
__global__ void PhaseProbe(const __grid_constant__ ProbeArgs args) {
  SHARED_MEMORY(shared);
  constexpr int kBytes = kProbeThreads * 4;
  uint64_t* const barrier = reinterpret_cast<uint64_t*>(shared + kBytes);
  WaitForPrevious();
  if (threadIdx.x == 0) {
    BarrierInit(barrier, 1 + kProbeThreads);
    FenceBarrierInit();
  }
  __syncthreads();
  for (int phase = 0; phase < kProbePhases; ++phase) {
    if (threadIdx.x == 0) {
      HintL2(args.in + phase * kBytes, kBytes / 2);
      BarrierArriveExpect(barrier, kBytes);
      BulkCopy(shared, args.in + phase * kBytes, kBytes / 2, barrier);
      BulkCopy(shared + kBytes / 2, args.in + phase * kBytes + kBytes / 2,
               kBytes / 2, barrier);
    }
    BarrierArrive(barrier);
    BarrierWait(barrier, phase & 1);
    Out<uint32_t>(args)[phase * kProbeThreads + threadIdx.x] =
        reinterpret_cast<const uint32_t*>(shared)[threadIdx.x];
    __syncthreads();
  }
}

// out: [blocks, threads] += 1, each by another block than in the launch before.
__global__ void DependentProbe(const __grid_constant__ ProbeArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int block = (blockIdx.x + args.parameter) % gridDim.x;
  Out<uint32_t>(args)[block * kProbeThreads + threadIdx.x] += 1;
}

// out: HandOverProbe. In each round a block writes numbers, and copies those of
// another block when all have written theirs.
__global__ void HandOverProbeKernel(const __grid_constant__ ProbeArgs args) {
  SHARED_MEMORY(shared);
  HandOverProbe& probe = *Out<HandOverProbe>(args);
  constexpr uint32_t kBytes = kProbeThreads * 4;
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared + kBytes);
  const auto number = [](uint32_t round, uint32_t block) {
    return (round << 16 | block << 8 | threadIdx.x) * 2654435761u;
  };
  WaitForPrevious();
  if (threadIdx.x == 0) {
    BarrierInit(full, 1);
    FenceBarrierInit();
  }
  __syncthreads();
  const uint32_t rounds = probe.rounds;
  for (uint32_t round = 0; round < rounds; ++round) {
    auto& values = probe.values[round & 1];
    values[blockIdx.x][threadIdx.x] = number(round, blockIdx.x);
    FenceAsyncGlobal();
    NamedSync(1, kProbeThreads);
    const uint32_t other = (blockIdx.x + 1 + round) % gridDim.x;
    if (threadIdx.x == 0) {
      CounterAdd(&probe.done);
      CounterWait(&probe.done, gridDim.x * (round + 1));
      FenceAsyncGlobal();
      BarrierArriveExpect(full, kBytes);
      BulkCopy(shared, values[other], kBytes, full);
    }
    BarrierWait(full, round & 1);
    if (reinterpret_cast<const uint32_t*>(shared)[threadIdx.x] !=
        number(round, other)) {
      atomicAdd(&probe.wrong, 1u);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && CounterReaches(&probe.left, gridDim.x)) {
    atomicAdd(&probe.last, 1u);
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_PROBE_KERNELS_H_
