#ifndef ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_WEIGHTS_H_
#define ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_WEIGHTS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/nn/thread_pool.h"
#include "drafter/eagle/eagle_config.h"
#include "drafter/heads/cuda_row_model.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// A head on a device: see EagleWeights.
struct CudaEagle {
  EagleConfig config;
  CudaNetwork network;  // final_norm: of the output
  CudaLinear fc = {};
  cuda::DeviceArray<float> fc_norms = {};    // [taps, target hidden] or empty
  cuda::DeviceArray<float> input_norm = {};  // [taps * target hidden] or empty
  // [hidden]
  cuda::DeviceArray<float> embedding_norm = {}, feature_norm = {};
};

// Loads like LoadEagle. UNIMPLEMENTED: the kernels do not cover the head.
// RESOURCE_EXHAUSTED: no room on the device.
absl::StatusOr<CudaEagle> LoadCudaEagle(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_WEIGHTS_H_
