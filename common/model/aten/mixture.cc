#include "common/model/aten/mixture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/ops.h"

namespace espalier {

at::Tensor GatedMlp::operator()(const at::Tensor& x,
                                Activation activation) const {
  const at::Tensor both = gate_up(x);
  const int64_t ffn = both.size(1) / 2;
  const at::Tensor gate = both.narrow(/*dim=*/1, 0, ffn).contiguous();
  return down(ops::Activate(gate, activation) *
              both.narrow(/*dim=*/1, ffn, ffn));
}

at::Tensor Mixture::operator()(const at::Tensor& x,
                               const LayerShape& shape) const {
  const int64_t per_row = shape.experts.per_row;
  const at::Tensor logits = router(x);
  // The stable sort leaves the lower of two numbers with equal logits before.
  const at::Tensor chosen =
      std::get<1>(at::sort(logits, /*stable=*/true, /*dim=*/-1,
                           /*descending=*/true))
          .narrow(/*dim=*/1, 0, per_row);  // [rows, per_row], likeliest first
  at::Tensor weights = logits.softmax(/*dim=*/-1).gather(/*dim=*/1, chosen);
  if (shape.experts.weights_sum_to_one) {
    weights = weights / weights.sum(/*dim=*/1, /*keepdim=*/true);
  }
  at::Tensor outputs = at::empty({x.size(0), per_row, x.size(1)}, x.options());
  for (int64_t expert = 0; expert < std::ssize(experts); ++expert) {
    const at::Tensor places = (chosen == expert).nonzero();  // [., 2]
    if (places.size(0) == 0) continue;
    const at::Tensor rows = places.select(/*dim=*/1, 0);
    const at::Tensor ranks = places.select(/*dim=*/1, 1);
    outputs.index_put_(
        {rows, ranks},
        experts[expert](x.index_select(/*dim=*/0, rows), shape.activation));
  }
  at::Tensor sum = at::zeros_like(x);
  for (int64_t rank = 0; rank < per_row; ++rank) {
    sum = sum +
          weights.narrow(/*dim=*/1, rank, 1) * outputs.select(/*dim=*/1, rank);
  }
  return sum;
}

absl::StatusOr<GatedMlp> LoadGatedMlp(const std::string& mlp, int64_t hidden,
                                      int64_t ffn, bool has_bias,
                                      WeightLoader& weights) {
  ASSIGN_OR_RETURN(
      Linear gate_up,
      weights.LoadLinear({{mlp + "gate_proj", ffn}, {mlp + "up_proj", ffn}},
                         {.in = hidden, .has_bias = has_bias}));
  ASSIGN_OR_RETURN(Linear down,
                   weights.LoadLinear({{mlp + "down_proj", hidden}},
                                      {.in = ffn, .has_bias = has_bias}));
  return GatedMlp{.gate_up = std::move(gate_up), .down = std::move(down)};
}

absl::StatusOr<Mixture> LoadMixture(const std::string& mlp, int64_t hidden,
                                    const ExpertsShape& shape,
                                    WeightLoader& weights) {
  ASSIGN_OR_RETURN(Linear router,
                   weights.LoadLinear({{mlp + "gate", shape.count}},
                                      {.in = hidden, .exact = true}));
  std::vector<GatedMlp> experts;
  for (int64_t i = 0; i < shape.count; ++i) {
    ASSIGN_OR_RETURN(GatedMlp expert,
                     LoadGatedMlp(absl::StrCat(mlp, "experts.", i, "."), hidden,
                                  shape.ffn_size, /*has_bias=*/false, weights));
    experts.push_back(std::move(expert));
  }
  return Mixture{.router = std::move(router), .experts = std::move(experts)};
}

}  // namespace espalier
