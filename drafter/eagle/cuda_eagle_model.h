#ifndef ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_MODEL_H_
#define ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/device_array.h"
#include "drafter/eagle/cuda_eagle_weights.h"
#include "drafter/heads/cuda_row_model.h"

namespace espalier::drafter {

// EagleModel on a GPU.
class CudaEagleModel final : public CudaRowModel {
 public:
  explicit CudaEagleModel(CudaEagle head)
      : CudaRowModel(std::move(head.network), head.config.features()),
        head_(std::move(head)) {}

 private:
  absl::Status Prepare(int rows) override;
  void Launch(const CudaPass& pass, const Places& places) override;
  const float* head_norm() const override;

  bool is_eagle1() const { return head_.config.mode == EagleMode::kEagle1; }
  int hidden() const { return static_cast<int>(config().hidden_size); }
  // Returns the rows of the width of the residual stream, into a part of the
  // input.
  cuda::TakeRowsArgs IntoInput(int rows, int first_column) const;
  // The target's states to features, still in parts.
  void Fuse(const cuda::bf16_t* states, int rows);
  void MultiplyFc(const unsigned char* activations, int rows);
  cuda::Parts FcParts(int rows) const;
  // The two inputs of a row side by side, and the residual stream. `feature`:
  // what the feature is taken from.
  void EnterEagle1(int rows, cuda::TakeRowsArgs feature);
  void EnterEagle3(int rows, cuda::TakeRowsArgs feature);

  const CudaEagle head_;  // without its network
  // Room for a pass.
  cuda::DeviceArray<float> embeddings_, fc_parts_;  // [rows, hidden]
  cuda::DeviceArray<cuda::bf16_t> embedding_bits_;
  cuda::DeviceArray<unsigned char> fused_;   // activations [rows, width]
  cuda::DeviceArray<unsigned char> input_;   // activations [rows, 2 hidden]
  cuda::DeviceArray<unsigned char> joined_;  // EAGLE-1: fc's rows, rounded
};

// See LoadCudaEagle. FAILED_PRECONDITION: this build has no kernels for GPUs.
absl::StatusOr<std::unique_ptr<RowModel>> LoadEagleOnGpu(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_CUDA_EAGLE_MODEL_H_
