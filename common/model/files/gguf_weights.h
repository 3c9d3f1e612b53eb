#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_WEIGHTS_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_WEIGHTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/model_config.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

// Reads the tensors of a file by their names in a Hugging Face folder, with the
// shapes that they have there. `config`: ReadGgufConfig of the file, which the
// views borrow. INVALID_ARGUMENT names a tensor that is not part of such a
// model: without it the model would compute something else.
absl::StatusOr<std::map<std::string, TensorView>> ReadGgufWeights(
    const GgufFile& file, const ModelConfig& config);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_WEIGHTS_H_
