#ifndef ESPALIER_TESTS_COMMON_MODEL_REFERENCE_MODEL_H_
#define ESPALIER_TESTS_COMMON_MODEL_REFERENCE_MODEL_H_

#include <vector>

#include "common/model/files/model_config.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {

// Returns the models in float64 and plain loops, written from the definitions
// and sharing nothing with the library but the configuration. Returns
// [tokens][vocab] logits.
std::vector<std::vector<double>> ReferenceLogits(
    const ModelConfig& config, const TinyTensors& tensors,
    const std::vector<TokenId>& tokens);

// Returns the residual stream: [tokens][num_layers + 2][hidden]. [0] is the
// embedding, [i] what enters layer i, [num_layers] what leaves the last one,
// and the last is the output of the final norm.
std::vector<std::vector<std::vector<double>>> ReferenceStates(
    const ModelConfig& config, const TinyTensors& tensors,
    const std::vector<TokenId>& tokens);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_COMMON_MODEL_REFERENCE_MODEL_H_
