#ifndef ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_
#define ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

// The tensors of a Llama or Qwen of this shape, by their names: matrices and
// biases of random weights, each from `seed` and its own name, and norms of
// ones. The values take no memory: they are made where they are read
// (nn::RandomBlock). ones: float32, as many as the largest norm has; the views
// borrow it. UNIMPLEMENTED: another architecture.
absl::StatusOr<std::map<std::string, TensorView>> RandomWeights(
    const ModelConfig& config, uint64_t seed, absl::Span<const float> ones);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_
