// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_OPS_H_
#define ESPALIER_COMMON_MODEL_ATEN_OPS_H_

#include <ATen/core/Tensor.h>

#include "common/model/files/model_config.h"
#include "common/model/native/row_batch.h"

// The operators of decoders, except Linear. Activations are float32, one row
// per token, and no row's result depends on another row.
namespace espalier::ops {

// table[ids] -> [rows, hidden] float32, from a table of any dtype.
at::Tensor Embed(const at::Tensor& table, const at::Tensor& ids);

// Over the last dimension. weight: what can be broadcast to x.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);
// x: [rows, hidden]; weight, bias: [hidden]
at::Tensor LayerNorm(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double eps);

at::Tensor Activate(const at::Tensor& x, Activation activation);

// Cosine and sine of every row's rotary angles, repeated for both halves.
struct Rotation {
  at::Tensor cos;  // [rows, 1, head_dim] float32
  at::Tensor sin;
};
// frequencies: [head_dim / 2] float64; positions: [rows] int64
// `scale`: of cosines and sines.
Rotation MakeRotation(const at::Tensor& frequencies, double scale,
                      const at::Tensor& positions);

// x: [rows, heads, head_dim], pairs (i, i + head_dim / 2).
at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation);

// Attention of one sequence's rows, whose K/V are already after the prefix in
// `k` and `v`. q: [rows, heads, head_dim], scaled; k, v: [kv_heads, capacity,
// head_dim] -> [rows, heads * head_dim].
//
// By rows: float32, exact in the sense of RowAttention. `sight`: as of
// LayerShape.
struct Sight {
  int64_t window = 0;
  double softcap = 0;
};
at::Tensor AttendByRows(const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const RowTree& tree,
                        const Sight& sight = {});
// Dense: any dtype of k and v. `bias`: see TreeBias.
at::Tensor AttendDense(const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const RowTree& tree,
                       const at::Tensor& bias, double softcap = 0);

// [rows, prefix + rows] float32: 0 at the positions and rows that a row sees,
// -infinity elsewhere.
at::Tensor TreeBias(const RowTree& tree, int64_t window = 0);

}  // namespace espalier::ops

#endif  // ESPALIER_COMMON_MODEL_ATEN_OPS_H_
