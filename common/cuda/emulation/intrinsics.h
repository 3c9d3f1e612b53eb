// Declares what CUDA C++ has beside C++, as far as kernels here use it, for a
// compiler of C++: names of CUDA's, so for the files that hold emulated kernels
// only.
#ifndef ESPALIER_COMMON_CUDA_EMULATION_INTRINSICS_H_
#define ESPALIER_COMMON_CUDA_EMULATION_INTRINSICS_H_

#include <cmath>
#include <cstdint>

#include "common/cuda/emulation/block.h"

#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx                                                  \
  (::espalier::cuda::emulation::ThreadIndex{static_cast<unsigned>( \
      ::espalier::cuda::emulation::Block::Current().thread())})
#define blockIdx (::espalier::cuda::emulation::Block::Current().shape().index)
#define gridDim (::espalier::cuda::emulation::Block::Current().shape().grid)

namespace espalier::cuda::emulation {

struct ThreadIndex {
  unsigned x;
};

template <typename T>
struct Shuffled {
  T in, out;
  int lane;  // whose value is wanted
};
template <typename T>
T Shuffle(T value, int lane) {
  Shuffled<T> arguments = {value, value, lane};
  Block::Current().MeetInWarp<Shuffled<T>>(arguments, [](Shuffled<T>** lanes) {
    for (int i = 0; i < 32; ++i) lanes[i]->out = lanes[lanes[i]->lane]->in;
  });
  return arguments.out;
}

}  // namespace espalier::cuda::emulation

inline void __syncthreads() {
  auto& block = espalier::cuda::emulation::Block::Current();
  block.Meet(block.all_threads(), block.shape().threads, nullptr, [] {});
}

inline void __syncwarp() {
  int none = 0;
  espalier::cuda::emulation::Block::Current().MeetInWarp<int>(none,
                                                              [](int**) {});
}

// Shuffles among all 32 lanes, whatever the mask.
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return espalier::cuda::emulation::Shuffle(value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  const int lane = threadIdx.x % 32;
  return espalier::cuda::emulation::Shuffle(value, lane ^ lanes);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int lanes) {
  const int lane = threadIdx.x % 32;
  return espalier::cuda::emulation::Shuffle(value,
                                            lane < lanes ? lane : lane - lanes);
}

// Threads of the emulation take turns.
template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

#endif  // ESPALIER_COMMON_CUDA_EMULATION_INTRINSICS_H_
