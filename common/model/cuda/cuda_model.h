#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_MODEL_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/cuda/compute_device.h"
#include "common/model/cuda/cuda_decoder.h"
#include "common/model/cuda/cuda_kv_cache.h"
#include "common/model/cuda/cuda_rows.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/cuda/feature_ring.h"
#include "common/model/cuda/launch_graphs.h"
#include "common/model/cuda/mailbox.h"
#include "common/model/cuda/reused_array.h"
#include "common/model/language_model.h"
#include "common/model/model_options.h"

namespace espalier {

// LanguageModel on the kernels of common/cuda, in bfloat16 or fp8. A row's
// logits are the same, to the bit, whatever else is in the pass, and those of
// decoding its path token by token.
class CudaModel final : public LanguageModel {
 public:
  struct Parts {
    ModelInfo info;
    std::shared_ptr<cuda::ComputeDevice> device;
    CudaWeights weights;
    CudaAngles angles;
    std::unique_ptr<CudaKvStore> pages;
    std::shared_ptr<FeatureRing> feature_ring = {};  // null: none
    bool replays_graphs = false;
  };

  // RESOURCE_EXHAUSTED: no room on the device for what passes need.
  static absl::StatusOr<std::unique_ptr<CudaModel>> Make(Parts parts);

  const ModelInfo& info() const override { return info_; }
  KvUsage kv_usage() const override;
  DeviceMemory device_memory() const override;
  CacheId NewSequence() override;
  void Release(CacheId cache) override;
  int64_t Length(CacheId cache) const override;
  int64_t HeldRoom(CacheId cache) const override;
  int64_t SharedRoom(CacheId cache) const override;
  int64_t HeldPrefix(absl::Span<const TokenId> text,
                     absl::string_view salt) const override;
  int64_t Share(CacheId cache, absl::Span<const TokenId> text,
                absl::string_view salt) override;
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override;
  absl::StatusOr<std::vector<RingSegment>> Store(
      CacheId cache, absl::Span<const int32_t> path,
      absl::Span<const int32_t> taps) override;
  absl::StatusOr<std::vector<RingSegment>> StoreRows(
      absl::Span<const int32_t> taps, absl::Span<const uint16_t> rows,
      int64_t position) override;
  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override;
  void Truncate(CacheId cache, int64_t length) override;

 private:
  explicit CudaModel(Parts parts);

  // The hidden states that a pass took, on the device.
  struct TappedPass {
    std::vector<int32_t> points;  // that any of its sequences wants
    int rows = 0;
    ReusedArray<cuda::bf16_t>::Held states;  // [points, rows, hidden] or more
  };
  struct Sequence {
    explicit Sequence(CudaKvStore* store) : kv(store) {}

    CudaKvCache kv;
    // The sequence's part of the last pass. `tapped` is null if it wants no
    // taps.
    std::vector<int32_t> last_parents;
    int32_t first_row = 0;
    std::vector<int32_t> taps;
    std::shared_ptr<const TappedPass> tapped;

    void ForgetPass();
  };

  cuda::KernelQueue& pass_queue() const;
  // Floats of the logits of so many rows.
  int64_t LogitsSize(int rows) const;
  Sequence& Get(CacheId cache);
  const Sequence& Get(CacheId cache) const;
  absl::StatusOr<CudaPass> BuildPass(absl::Span<const SequenceRows> batch);
  absl::StatusOr<std::unique_ptr<LogitRows>> RunPass(
      absl::Span<const SequenceRows> batch);
  absl::Status AddUses(absl::Span<const SequenceRows> batch,
                       const CudaPass& pass, CudaRows& rows);
  // Returns a path's rows among those of the whole pass.
  static std::vector<int32_t> RowsOfPass(const Sequence& sequence,
                                         absl::Span<const int32_t> path);
  absl::StatusOr<std::shared_ptr<TappedPass>> MakeTapped(
      absl::Span<const SequenceRows> batch, int rows);
  // Each puts its requests into the mailbox and returns the launch that follows
  // once they are sent, if there is one. For Keep, these gather the features of
  // a path, [path, taps, hidden] (`features`: their place), and move its K/V to
  // the end of the prefix.
  using MaybeLaunch = std::optional<cuda::KernelArgs>;
  absl::StatusOr<MaybeLaunch> GatherFeatures(
      const Sequence& sequence, absl::Span<const int32_t> path,
      absl::Span<const cuda::bf16_t>& features);
  absl::StatusOr<MaybeLaunch> MoveRows(const Sequence& sequence,
                                       absl::Span<const int32_t> path);

  const ModelInfo info_;
  const std::shared_ptr<cuda::ComputeDevice> device_;  // outlives what follows
  const CudaWeights weights_;
  const std::unique_ptr<CudaKvStore> pages_;
  const std::shared_ptr<FeatureRing> feature_ring_;
  const std::unique_ptr<LaunchGraphs> graphs_;  // null: passes are launched
  CudaDecoder decoder_;
  ReusedArray<float> logits_;
  ReusedArray<cuda::bf16_t> states_;
  Mailbox requests_, answers_;
  std::unordered_map<CacheId, Sequence> sequences_;  // hold pages of pages_
  CacheId next_id_ = 1;
};

// See LoadModel. `device` runs the kernels. UNIMPLEMENTED: the kernels do not
// cover the model or the compute type. RESOURCE_EXHAUSTED: no room on the
// device. FAILED_PRECONDITION: this build has no kernels for GPUs.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadCudaModel(
    const ModelOptions& options, std::shared_ptr<cuda::ComputeDevice> device);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_MODEL_H_
