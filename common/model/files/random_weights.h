#ifndef ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_
#define ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Returns the tensors of a decoder. UNIMPLEMENTED: it is not of kind kLlama.
absl::StatusOr<std::vector<TensorShape>> ModelShapes(const ModelConfig& config);

// Returns the shapes of a layer's tensors but its input norm. `prefix` of their
// names; inputs: of its attention.
std::vector<TensorShape> LayerShapes(const ModelConfig& config, int64_t index,
                                     const std::string& prefix, int64_t inputs);

// Tensors of these shapes: matrices and biases of random weights, each from
// `seed` and its own name, and other vectors of ones. The values take no
// memory: they are made where they are read (nn::RandomBlock). ones: float32,
// as many as the largest vector has; the views borrow it.
std::map<std::string, TensorView> RandomWeights(
    absl::Span<const TensorShape> shapes, uint64_t seed,
    absl::Span<const float> ones);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_RANDOM_WEIGHTS_H_
