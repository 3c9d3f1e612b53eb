// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_LINEAR_H_
#define ESPALIER_COMMON_MODEL_ATEN_LINEAR_H_

#include <ATen/core/Tensor.h>

namespace espalier {

// y = x W^T + b, from float32 rows to float32 rows.
//
// On the CPU in float32 a row's result does not depend, bit for bit, on the
// number of rows in the call: speculation must not flip a near-tie that plain
// decoding decides otherwise. BLAS does not give that (a tail of 1 to 3 rows
// takes another kernel than a full tile), so the weights are packed for oneDNN
// and the rows always come in blocks of 6, 12, 24 or 48. Measured on AVX2: all
// blocks agree with each other, and a block of 6 takes as long as at::linear
// with one row.
class Linear {
 public:
  // `weight`: [out, in] on its device, in the dtype of the product (float32 or
  // bfloat16). `bias`: [out] float32; undefined: none.
  Linear(at::Tensor weight, at::Tensor bias);

  // [rows, in] float32 -> [rows, out] float32
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  at::Tensor PackedBlock(const at::Tensor& x) const;

  bool packed_;
  at::Tensor weight_;  // packed_: opaque, in oneDNN's layout
  at::Tensor bias_;    // undefined: none
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_LINEAR_H_
