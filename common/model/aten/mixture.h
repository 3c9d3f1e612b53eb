// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_MIXTURE_H_
#define ESPALIER_COMMON_MODEL_ATEN_MIXTURE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/aten/linear.h"
#include "common/model/aten/weight_loader.h"
#include "common/model/files/layer_shape.h"

namespace espalier {

struct GatedMlp {
  Linear gate_up;  // hidden -> 2 ffn
  Linear down;     // ffn -> hidden

  // [rows, hidden] float32 -> [rows, hidden] float32
  at::Tensor operator()(const at::Tensor& x, Activation activation) const;
};

// `mlp`: the prefix of its tensors' names.
absl::StatusOr<GatedMlp> LoadGatedMlp(const std::string& mlp, int64_t hidden,
                                      int64_t ffn, bool has_bias,
                                      WeightLoader& weights);

// Experts as ExpertsShape says. The router computes in float32.
struct Mixture {
  Linear router;                  // hidden -> experts
  std::vector<GatedMlp> experts;  // [count]

  // [rows, hidden] float32 -> [rows, hidden] float32. A row's bits do not
  // depend on the other rows.
  at::Tensor operator()(const at::Tensor& x, const LayerShape& shape) const;
};

absl::StatusOr<Mixture> LoadMixture(const std::string& mlp, int64_t hidden,
                                    const ExpertsShape& shape,
                                    WeightLoader& weights);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_MIXTURE_H_
