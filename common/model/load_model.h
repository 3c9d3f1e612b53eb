#ifndef ESPALIER_COMMON_MODEL_LOAD_MODEL_H_
#define ESPALIER_COMMON_MODEL_LOAD_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/language_model.h"

namespace espalier {

enum class ComputeDType {
  kFloat32,   // weights widened at load; the reference
  kBFloat16,  // bf16 weights and products, float32 residual and logits
};

struct ModelOptions {
  std::string folder;  // config.json and model.safetensors (or its shards)
  std::string device = "cpu";  // or "cuda", "cuda:1"
  ComputeDType compute_dtype = ComputeDType::kFloat32;
  int64_t threads = 0;  // of the CPU; 0: the cores that this process may use
  int64_t kv_pool_bytes = int64_t{1} << 30;
  int64_t max_context = 0;  // tokens per sequence; 0: the model's own limit
  int64_t max_rows = 256;   // per sequence and pass
};

// Loads a Hugging Face folder on libtorch's operators. Sets the number of
// threads of the whole process: two models in one process share them.
// NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: what is wrong with the folder.
// FAILED_PRECONDITION: no such device here.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(
    const ModelOptions& options);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOAD_MODEL_H_
