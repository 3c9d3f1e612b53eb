#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_PRODUCT_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_PRODUCT_H_

#include <cstdint>

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_weights.h"

namespace espalier {

// Floats of a product's sums, for so many rows.
inline int64_t PartsSize(int outputs, int inputs, int rows) {
  return int64_t{cuda::ProductSplits(outputs, inputs)} *
         cuda::PaddedRows(rows) * outputs;
}
inline int64_t PartsSize(const CudaLinear& linear, int rows) {
  return PartsSize(linear.outputs, linear.inputs, rows);
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

// Returns the product with the weights from output `first` on alone, `outputs`
// of them. REQUIRES: both are multiples of cuda::kStripOutputs.
inline cuda::ProductArgs ProductOf(const CudaLinear& linear, int first,
                                   int outputs,
                                   const unsigned char* activations, int rows,
                                   float* parts) {
  cuda::ProductArgs product = ProductOf(linear, activations, rows, parts);
  const bool is_e4m3 = linear.type == CudaWeightType::kE4m3;
  const int tiles =
      first / cuda::kStripOutputs * (linear.inputs / cuda::kTileColumns);
  product.weights += int64_t{tiles} *
                     (is_e4m3 ? cuda::kE4m3TileBytes : cuda::kWeightTileBytes);
  if (is_e4m3) product.scales += first;
  product.outputs = outputs;
  return product;
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
