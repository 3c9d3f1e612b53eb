#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_MIXTURE_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_MIXTURE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/files/model_config.h"

namespace espalier {

// Queues the feed-forward part of layers with experts (ExpertsShape). The
// device chooses the experts of rows and groups the rows by expert, so the host
// waits for nothing. The next kernel that reads a row's outputs adds them in
// the order of the row's choices, so its bits do not depend on who shares the
// pass. Owns the buffers between the kernels. One thread.
class CudaMixture {
 public:
  // The references must outlive this object.
  CudaMixture(const ModelConfig& config, cuda::ComputeDevice& device,
              cuda::KernelQueue& queue)
      : config_(config), device_(device), queue_(queue) {}

  // Makes room for passes of so many rows. RESOURCE_EXHAUSTED: no room on the
  // device.
  absl::Status Reserve(int rows);

  // Points to what the router reads, [rows, hidden]: the rows that Launch is
  // given, not rounded.
  float* router_input() const { return router_input_.data(); }

  // `input`: activations [rows, hidden]. `layer` has experts.
  void Launch(const LayerShape& layer, const CudaExperts& experts,
              const unsigned char* input, int rows);
  // Returns what the last Launch left, for rows to add.
  cuda::Parts output(const LayerShape& layer, int rows) const;

 private:
  void Route(const LayerShape& layer, const CudaExperts& experts, int rows);
  void Multiply(const LayerShape& layer, const CudaExperts& experts, int rows);

  const ModelConfig& config_;
  cuda::ComputeDevice& device_;
  cuda::KernelQueue& queue_;
  cuda::DeviceArray<float> router_input_;
  cuda::DeviceArray<cuda::ExpertChoice> choices_;  // [rows, per_row]
  cuda::DeviceArray<cuda::ExpertItem> items_;
  // Activations and sums of all places.
  cuda::DeviceArray<unsigned char> placed_, gated_;
  cuda::DeviceArray<float> sums_;  // [places, hidden]
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_MIXTURE_H_
