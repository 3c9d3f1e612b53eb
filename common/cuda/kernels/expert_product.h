#ifndef ESPALIER_COMMON_CUDA_KERNELS_EXPERT_PRODUCT_H_
#define ESPALIER_COMMON_CUDA_KERNELS_EXPERT_PRODUCT_H_

#include "common/cuda/kernels/e4m3_product.h"
#include "common/cuda/kernels/product.h"

namespace espalier::cuda {
namespace {

// Returns the product of the item that this block of threads takes; without
// rows: it takes none. Earlier kernels decide which weights that reads, so it
// waits for them.
template <int kRows>
DEVICE ProductArgs ProductOfItem(const ExpertProductArgs& args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const ExpertItem item = args.items[blockIdx.x];
  ProductArgs product = args.product;
  product.weights += item.expert * args.expert_bytes;
  if (product.scales != nullptr)
    product.scales += item.expert * product.outputs;
  product.rows = item.rows == 0 ? 0 : blockIdx.x * kRows + item.rows;
  return product;
}

// Grid: items, strips / kGroups.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    ExpertProduct(const __grid_constant__ ExpertProductArgs args) {
  SHARED_MEMORY(shared);
  const ProductArgs product = ProductOfItem<kRows>(args);
  if (product.rows > 0) RunProduct<kGroups, kRows>(product, shared);
}
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    E4m3ExpertProduct(const __grid_constant__ ExpertProductArgs args) {
  SHARED_MEMORY(shared);
  const ProductArgs product = ProductOfItem<kRows>(args);
  if (product.rows > 0) RunE4m3Product<kGroups, kRows>(product, shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_EXPERT_PRODUCT_H_
