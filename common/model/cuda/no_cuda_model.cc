// Stands in for the model on GPUs in a build without kernels for them.
#include "absl/status/status.h"
#include "common/model/cuda/cuda_model.h"

namespace espalier {

// No device is opened in such a build, which says so before a model is loaded.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadCudaModel(
    const ModelOptions&, std::shared_ptr<cuda::ComputeDevice>) {
  return absl::FailedPreconditionError("this build has no kernels for GPUs");
}

}  // namespace espalier
