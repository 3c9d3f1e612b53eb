#ifndef ESPALIER_COMMON_CUDA_CUDA_DEVICE_H_
#define ESPALIER_COMMON_CUDA_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/compute_device.h"

namespace espalier::cuda {

struct CudaDeviceOptions {
  // A kernel may begin before the one before it has ended (programmatic
  // dependent launch). Off for measurements.
  bool dependent_launches = true;
  // Layers run as chains (ChainArgs) where they can.
  bool runs_chains = kRunsChains;
  bool carries_mail = kCarriesMail;    // see DeviceInfo
  bool chains_attend = kChainsAttend;  // LayerChainArgs, where there are chains
};

// Opens a GPU of compute capability 9.0, by its number. FAILED_PRECONDITION:
// there is no such GPU, no driver, or one that is too old, or this program was
// built without nvcc.
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCudaDevice(
    int index, const CudaDeviceOptions& options = {});

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_CUDA_DEVICE_H_
