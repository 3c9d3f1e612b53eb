#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_LOGITS_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_LOGITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/cuda_weights.h"

namespace espalier {

// The product with the rows of a vocabulary. A small vocabulary is multiplied
// in parts, which are then added up. One thread.
class CudaLogits {
 public:
  // The references must outlive this object.
  CudaLogits(const CudaLinear& head, cuda::ComputeDevice& device,
             cuda::KernelQueue& queue)
      : head_(head), device_(device), queue_(queue) {}

  // Makes room for passes of so many rows. RESOURCE_EXHAUSTED: there is none.
  absl::Status Reserve(int rows);
  // Queued. activations: [rows, hidden]; logits: [padded rows, stride()].
  void Launch(const unsigned char* activations, int rows, float* logits);

  int64_t stride() const { return head_.outputs; }

 private:
  int splits() const;

  const CudaLinear& head_;
  cuda::ComputeDevice& device_;
  cuda::KernelQueue& queue_;
  cuda::DeviceArray<float> parts_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_LOGITS_H_
