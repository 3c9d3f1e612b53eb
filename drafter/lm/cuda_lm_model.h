#ifndef ESPALIER_DRAFTER_LM_CUDA_LM_MODEL_H_
#define ESPALIER_DRAFTER_LM_CUDA_LM_MODEL_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "drafter/heads/cuda_row_model.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/lm/lm_model.h"

namespace espalier::drafter {

// LmModel on a GPU.
class CudaLmModel final : public CudaRowModel {
 public:
  explicit CudaLmModel(CudaNetwork network)
      : CudaRowModel(std::move(network), /*features=*/{}) {}

  using CudaRowModel::config;

 private:
  absl::Status Prepare(int /*rows*/) override { return absl::OkStatus(); }
  // Outputs are normed already.
  void Launch(const CudaPass& pass, const Places& places) override;
  const float* head_norm() const override { return nullptr; }
};

// Errors name the file. UNIMPLEMENTED: the kernels do not cover the model.
// RESOURCE_EXHAUSTED: no room on the device. FAILED_PRECONDITION: this build
// has no kernels for GPUs.
absl::StatusOr<LoadedLm> LoadLmOnGpu(
    const LmOptions& options, const HeadRuntime& runtime,
    std::shared_ptr<cuda::ComputeDevice> device);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_LM_CUDA_LM_MODEL_H_
