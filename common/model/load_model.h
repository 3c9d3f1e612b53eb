#ifndef ESPALIER_COMMON_MODEL_LOAD_MODEL_H_
#define ESPALIER_COMMON_MODEL_LOAD_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/compute_dtype.h"
#include "common/model/language_model.h"

namespace espalier {

// Implementations that this build has: "native" (own kernels, CPU only) and,
// with libtorch, "aten" (any device).
std::vector<std::string> ModelBackends();

struct ModelOptions {
  std::string folder;  // config.json and model.safetensors (or its shards)
  std::string device = "cpu";  // or "cuda", "cuda:1"
  ComputeDType compute_dtype = ComputeDType::kFloat32;
  int64_t threads = 0;  // of the CPU; 0: the cores that this process may use
  int64_t kv_pool_bytes = int64_t{1} << 30;
  int64_t max_context = 0;  // tokens per sequence; 0: the model's own limit
  int64_t max_rows = 256;   // per sequence and pass
  // One of ModelBackends, or "auto": native where it covers the device and the
  // model and this CPU has better than portable kernels for it.
  std::string backend = "auto";
  std::string cpu_kernels = "auto";  // of the native one; see nn::FindBackend
};

// Loads a Hugging Face folder. "aten" sets the number of threads of the whole
// process: two such models in one process share them. A native model has its
// own.
// NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: what is wrong with the folder.
// FAILED_PRECONDITION: no such device or backend here.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(
    const ModelOptions& options);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOAD_MODEL_H_
