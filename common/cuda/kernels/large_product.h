#ifndef ESPALIER_COMMON_CUDA_KERNELS_LARGE_PRODUCT_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LARGE_PRODUCT_H_

#include "common/cuda/kernels/product.h"

namespace espalier::cuda {
namespace {

// Three warpgroups hold more sums of 256 rows than an equal share of registers
// has room for, so a fourth, of which one thread brings tiles, leaves them most
// of its own.
struct SharedOutRegisters {
  DEVICE static void Take() { TakeRegisters<160>(); }
  DEVICE static void Leave() { KeepRegisters<32>(); }
};

struct LargeTile {
  static constexpr int kGroups = 3, kRows = 256;
  static constexpr int kThreads = (kGroups + 1) * 128;
  // Rows of an instruction. The compiler refuses one of 256, for which it sees
  // the equal share alone.
  static constexpr int kWidest = 128;
};

// Grid: as Product.
__global__ void __launch_bounds__(LargeTile::kThreads, 1)
    LargeProduct(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  RunProduct<LargeTile::kGroups, LargeTile::kRows, LargeTile::kWidest,
             SharedOutRegisters>(args, shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LARGE_PRODUCT_H_
