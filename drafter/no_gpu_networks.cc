// Stands in for the draft networks on GPUs in a build without kernels for them.
#include "absl/status/status.h"
#include "drafter/dflash/cuda_dflash_model.h"
#include "drafter/eagle/cuda_eagle_model.h"
#include "drafter/lm/cuda_lm_model.h"

namespace espalier::drafter {
namespace {

// No device is opened in such a build, which says so before anything is loaded.
absl::Status NoKernels() {
  return absl::FailedPreconditionError("this build has no kernels for GPUs");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowModel>> LoadEagleOnGpu(
    const std::string&, const HeadTarget&, const HeadRuntime&,
    std::shared_ptr<cuda::ComputeDevice>) {
  return NoKernels();
}

absl::StatusOr<std::unique_ptr<BlockModel>> LoadDflashOnGpu(
    const std::string&, const HeadTarget&, const HeadRuntime&,
    std::shared_ptr<cuda::ComputeDevice>) {
  return NoKernels();
}

absl::StatusOr<LoadedLm> LoadLmOnGpu(const LmOptions&, const HeadRuntime&,
                                     std::shared_ptr<cuda::ComputeDevice>) {
  return NoKernels();
}

}  // namespace espalier::drafter
