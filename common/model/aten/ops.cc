#include "common/model/aten/ops.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/model/aten/row_attention.h"

namespace espalier::ops {
namespace {

// Multiply-adds below which a task is not worth another thread.
constexpr int64_t kMinTaskWork = 1 << 15;

// Returns the first position that a row sees.
int64_t FirstSeen(const RowTree& tree, int64_t row, int64_t window) {
  if (window == 0) return 0;
  return std::max<int64_t>(0, tree.positions[row] - window + 1);
}

}  // namespace

at::Tensor Embed(const at::Tensor& table, const at::Tensor& ids) {
  return table.index_select(/*dim=*/0, ids).to(at::kFloat);
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor mean_square =
      x.square().mean(/*dim=*/{-1}, /*keepdim=*/true);
  return x * at::rsqrt(mean_square + eps) * weight;
}

at::Tensor LayerNorm(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double eps) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x, "none");
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
  }
  ESPALIER_CHECK(false);
}

Rotation MakeRotation(const at::Tensor& frequencies, double scale,
                      const at::Tensor& positions) {
  // float64: the angle of position 8000 needs more than 24 bits.
  const at::Tensor half =
      positions.to(at::kDouble).unsqueeze(/*dim=*/1) * frequencies;
  const at::Tensor angles =
      at::cat({half, half}, /*dim=*/1).unsqueeze(/*dim=*/1);
  return {.cos = (angles.cos() * scale).to(at::kFloat),
          .sin = (angles.sin() * scale).to(at::kFloat)};
}

at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat(
      {-x.narrow(/*dim=*/-1, half, half), x.narrow(/*dim=*/-1, 0, half)},
      /*dim=*/-1);
  return x * rotation.cos + turned * rotation.sin;
}

at::Tensor AttendByRows(const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const RowTree& tree,
                        const Sight& sight) {
  const int64_t rows = q.size(0), heads = q.size(1), head_dim = q.size(2);
  const int64_t group = heads / k.size(0);  // query heads per K/V head
  const at::Tensor queries = q.contiguous();
  at::Tensor out = at::empty({rows, heads * head_dim}, q.options());
  const float* q_data = queries.const_data_ptr<float>();
  const float* k_data = k.const_data_ptr<float>();
  const float* v_data = v.const_data_ptr<float>();
  float* out_data = out.data_ptr<float>();

  const int64_t work = (tree.prefix + rows) * head_dim;  // of one task
  const int64_t grain = std::max<int64_t>(1, kMinTaskWork / work);
  at::parallel_for(0, rows * heads, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / heads, head = task % heads;
      const RowAttention attention = {
          .q = q_data + task * head_dim,
          .k = k_data + head / group * k.stride(0),
          .v = v_data + head / group * v.stride(0),
          .head_dim = head_dim,
          .prefix = tree.prefix,
          .first = FirstSeen(tree, row, sight.window),
          .softcap = static_cast<float>(sight.softcap),
          .ancestors = tree.AncestorsOf(row)};
      attention.Run(scores, out_data + task * head_dim);
    }
  });
  return out;
}

at::Tensor AttendDense(const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const RowTree& tree,
                       const at::Tensor& bias, double softcap) {
  const int64_t rows = q.size(0), heads = q.size(1), head_dim = q.size(2);
  const int64_t kv_heads = k.size(0), group = heads / kv_heads;
  const int64_t keys_size = tree.prefix + rows;
  const at::Tensor keys = k.narrow(/*dim=*/1, 0, keys_size);
  const at::Tensor values = v.narrow(/*dim=*/1, 0, keys_size);
  // The query heads of one K/V head become rows of one product: [kv_heads,
  // group * rows, head_dim].
  const at::Tensor queries = q.to(k.scalar_type())
                                 .transpose(0, 1)
                                 .reshape({kv_heads, group * rows, head_dim});
  at::Tensor scores = at::bmm(queries, keys.transpose(1, 2))
                          .to(at::kFloat)
                          .view({kv_heads, group, rows, keys_size});
  if (softcap > 0) scores.div_(softcap).tanh_().mul_(softcap);
  scores.add_(bias);
  const at::Tensor weights = scores.softmax(/*dim=*/-1)
                                 .view({kv_heads, group * rows, keys_size})
                                 .to(v.scalar_type());
  return at::bmm(weights, values)
      .to(at::kFloat)
      .view({heads, rows, head_dim})
      .transpose(0, 1)
      .reshape({rows, heads * head_dim});
}

at::Tensor TreeBias(const RowTree& tree, int64_t window) {
  at::Tensor bias = at::full({tree.rows(), tree.prefix + tree.rows()},
                             -std::numeric_limits<float>::infinity());
  auto rows = bias.accessor<float, 2>();
  for (int64_t row = 0; row < tree.rows(); ++row) {
    const int64_t first = FirstSeen(tree, row, window);
    for (int64_t i = first; i < tree.prefix; ++i) rows[row][i] = 0;
    const auto ancestors = tree.AncestorsOf(row);
    for (int64_t i = std::max<int64_t>(0, first - tree.prefix);
         i < std::ssize(ancestors); ++i) {
      rows[row][tree.prefix + ancestors[i]] = 0;
    }
  }
  return bias;
}

}  // namespace espalier::ops
