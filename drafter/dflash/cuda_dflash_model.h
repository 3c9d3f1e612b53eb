#ifndef ESPALIER_DRAFTER_DFLASH_CUDA_DFLASH_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_CUDA_DFLASH_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/cuda_decoder.h"
#include "common/model/cuda/cuda_kv_cache.h"
#include "common/model/cuda/cuda_pass.h"
#include "common/model/cuda/mailbox.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/paged_block_model.h"
#include "drafter/heads/cuda_candidates.h"
#include "drafter/heads/cuda_feature_store.h"
#include "drafter/heads/cuda_row_model.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// A block drafter on a device: see DflashWeights.
struct CudaDflash {
  DflashConfig config;
  CudaNetwork network;
  CudaLinear fc = {};                          // features -> hidden
  cuda::DeviceArray<float> context_norm = {};  // of fc's rows
  CudaKvProduct context_kv = {};               // of normed rows of fc
  bool shares = false;                         // see PagedBlockModel
};

// A BlockModel on a GPU. The rows of a block are a pass of a decoder in which
// each sees the whole block. Contexts are queued and not waited for; a
// prediction waits once.
class CudaDflashModel final : public PagedBlockModel<CudaKvCache, CudaKvStore> {
 public:
  explicit CudaDflashModel(CudaDflash drafter);
  ~CudaDflashModel() override;

  FeatureStore& features() override { return features_; }
  absl::Status Reserve(const NewRows& rows) override;
  absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>> Predict(
      absl::Span<const Block> blocks, int64_t width) override;

 private:
  absl::Status ExtendBy(absl::Span<const Piece> pieces) override;
  absl::Status ReserveContexts(int rows);
  // Features to activations, and these to what keys and values are made of.
  void Fuse(int rows);
  // Predicts as many blocks as one ranking takes: those of `blocks` that were
  // predicted are removed.
  using Marginals = std::vector<std::vector<std::vector<Candidate>>>;
  absl::Status PredictSome(absl::Span<const Block>& blocks, int64_t width,
                           Marginals& marginals);
  cuda::ComputeDevice& device() { return *drafter_.network.device; }

  CudaDflash drafter_;
  CudaFeatureStore features_;
  CudaDecoder decoder_;
  Mailbox requests_, answers_;
  // Room for a pass of contexts: activations [rows, width] and [rows, hidden].
  cuda::DeviceArray<unsigned char> taken_, normed_;
  cuda::DeviceArray<float> parts_;
};

// Loads like ReadDflashConfig and LoadDflashWeights. UNIMPLEMENTED: the kernels
// do not cover the drafter. RESOURCE_EXHAUSTED: no room on the device.
absl::StatusOr<CudaDflash> LoadCudaDflash(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device);

// See LoadCudaDflash. FAILED_PRECONDITION: this build has no kernels for GPUs.
absl::StatusOr<std::unique_ptr<BlockModel>> LoadDflashOnGpu(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_CUDA_DFLASH_MODEL_H_
