#ifndef ESPALIER_COMMON_CUDA_KERNELS_RANDOM_WEIGHTS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RANDOM_WEIGHTS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kRandomThreads = 128;
inline constexpr int kRandomBlock = 32;  // weights that a thread makes

// Mixes bits like the finalizer of SplitMix64.
DEVICE uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// -7 .. 7, of four bits of two words.
DEVICE int RandomCode(const uint64_t (&words)[2], int of) {
  const int bits = static_cast<int>(words[of / 16] >> of % 16 * 4 & 15);
  return bits == 0 ? 0 : bits - 8;
}

// Returns a whole number of at most 7.
DEVICE unsigned char E4m3OfCode(int code) {
  constexpr uint64_t kSizes = 0x4e4c4a4844403800;  // 7 .. 0
  const int size = code < 0 ? -code : code;
  return static_cast<unsigned char>((kSizes >> 8 * size & 0x7f) |
                                    (code < 0 ? 0x80 : 0));
}

// Grid: outputs, whatever of them are of the tensor or follow it. As
// nn::RandomBlock: codes of 4 bits, -7 .. 7, times a power of two.
__global__ void __launch_bounds__(kRandomThreads)
    RandomWeights(const __grid_constant__ RandomWeightsArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int row = blockIdx.x;
  const uint32_t output = args.first_output + OutputPlace(args.placing, row);
  const int blocks = args.inputs / kRandomBlock;
  for (int block = threadIdx.x; block < blocks; block += kRandomThreads) {
    const uint64_t place = MixBits(args.seed) +
                           static_cast<uint64_t>(int64_t{row} * blocks + block);
    const uint64_t words[2] = {MixBits(place), MixBits(~place)};
    if (args.is_e4m3) {
#pragma unroll
      for (int i = 0; i < kRandomBlock; ++i) {
        args.out[E4m3WeightPlace(args.inputs, output,
                                 block * kRandomBlock + i)] =
            row < args.rows ? E4m3OfCode(RandomCode(words, i)) : 0;
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < kRandomBlock; i += 8) {
      Piece piece = {};
#pragma unroll
      for (int k = 0; k < 4 && row < args.rows; ++k) {
        const auto value = [&](int of) {
          return static_cast<float>(RandomCode(words, of)) * args.scale;
        };
        piece.words[k] = PackBf16(value(i + 2 * k), value(i + 2 * k + 1));
      }
      *reinterpret_cast<Piece*>(
          args.out +
          WeightPlace(args.inputs, output, block * kRandomBlock + i)) = piece;
    }
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RANDOM_WEIGHTS_H_
