#ifndef ESPALIER_COMMON_MODEL_LOAD_LOAD_MODEL_H_
#define ESPALIER_COMMON_MODEL_LOAD_LOAD_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/language_model.h"
#include "common/model/model_options.h"

namespace espalier {

// Implementations that this build has for the CPU: "native" (own kernels) and,
// with libtorch, "aten". A third, "cuda" (own kernels for GPUs,
// bfloat16), is for GPUs alone.
std::vector<std::string> ModelBackends();

// Loads a Hugging Face folder or a GGUF file. "aten" sets the number of threads
// of the whole process: two such models in one process share them. A native
// model has its own threads. NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: the
// folder is missing, malformed or not supported; the message says why.
// FAILED_PRECONDITION: no such device or backend here.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(
    const ModelOptions& options);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOAD_LOAD_MODEL_H_
