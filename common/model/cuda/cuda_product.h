#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_PRODUCT_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_PRODUCT_H_

#include <cstdint>

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_weights.h"

namespace espalier {

// Floats of a product's sums, for so many rows.
inline int64_t PartsSize(const CudaLinear& linear, int rows) {
  return int64_t{cuda::ProductSplits(linear.outputs, linear.inputs)} *
         cuda::PaddedRows(rows) * linear.outputs;
}

inline cuda::Gate GateOf(const LayerShape& layer) {
  return layer.activation == Activation::kSilu ? cuda::Gate::kSilu
                                               : cuda::Gate::kGeluTanh;
}

// rows * weights. parts: [PartsSize(linear, rows)].
inline cuda::ProductArgs ProductOf(const CudaLinear& linear,
                                   const unsigned char* activations, int rows,
                                   float* parts) {
  return {.weights = linear.weights.data(),
          .scales = linear.scales.data(),
          .activations = activations,
          .rows = rows,
          .inputs = linear.inputs,
          .outputs = linear.outputs,
          .parts = parts};
}

// The sums of that product, for the kernel that reads them.
inline cuda::Parts PartsOf(const CudaLinear& linear, int rows,
                           const float* parts) {
  return {.values = parts,
          .splits = cuda::ProductSplits(linear.outputs, linear.inputs),
          .padded_rows = cuda::PaddedRows(rows),
          .outputs = linear.outputs,
          .bias = linear.bias.size() > 0 ? linear.bias.data() : nullptr};
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_PRODUCT_H_
