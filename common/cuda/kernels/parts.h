#ifndef ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// `value` plus number `output` of a row, in the order of the parts.
DEVICE float AddParts(const Parts& parts, int64_t row, int output,
                      float value) {
  for (int split = 0; split < parts.splits; ++split) {
    value +=
        parts
            .values[(split * int64_t{parts.padded_rows} + row) * parts.outputs +
                    output];
  }
  return parts.bias == nullptr ? value : value + parts.bias[output];
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_
