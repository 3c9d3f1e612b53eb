#ifndef ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/paged_kv_cache.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/dflash_weights.h"
#include "drafter/dflash/paged_block_model.h"
#include "drafter/engine/host_feature_store.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// A BlockModel on the CPU.
class DflashModel final : public PagedBlockModel<PagedKvCache, KvPageStore> {
 public:
  DflashModel(const DflashConfig& config,
              std::unique_ptr<const DflashWeights> weights,
              HeadRuntime runtime);

  FeatureStore& features() override { return features_; }
  absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>> Predict(
      absl::Span<const Block> blocks, int64_t width) override;

 private:
  absl::Status ExtendBy(absl::Span<const Piece> pieces) override;
  NativePass ContextPass(absl::Span<const Piece> pieces);
  NativePass BlockPass(absl::Span<const Block> blocks);
  void RunLayers(const NativePass& pass);

  const std::unique_ptr<const DflashWeights> weights_;
  const HeadRuntime runtime_;
  NativeLayers layers_;
  CandidateHead head_;
  HostFeatureStore features_;

  std::vector<float> inputs_;  // [rows, width], of a context pass
  std::vector<float> x_;       // [rows, hidden]
  std::vector<float> normed_;  // [rows, hidden]
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
