// How a product is divided among blocks of threads.
#ifndef ESPALIER_COMMON_CUDA_PRODUCT_PARTS_H_
#define ESPALIER_COMMON_CUDA_PRODUCT_PARTS_H_

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {

// Returns the ranges of inputs that are summed apart.
ESPALIER_HOST_DEVICE inline int SplitsOf(const ProductArgs& args) {
  return args.gated == nullptr && !args.undivided
             ? ProductSplits(args.outputs, args.inputs)
             : 1;
}

// Returns the parts of a product whose rows are one block.
ESPALIER_HOST_DEVICE inline int ProductParts(const ProductArgs& args,
                                             int groups) {
  const int strips = args.outputs / kStripOutputs;
  return (strips + groups - 1) / groups * SplitsOf(args);
}

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_PRODUCT_PARTS_H_
