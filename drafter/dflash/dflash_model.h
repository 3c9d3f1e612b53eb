#ifndef ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/paged_kv_cache.h"
#include "drafter/dflash/block_model.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/dflash_weights.h"
#include "drafter/gumbel_coupling.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/host_feature_store.h"

namespace espalier::drafter {

// A BlockModel on the CPU.
class DflashModel final : public BlockModel {
 public:
  DflashModel(const DflashConfig& config,
              std::unique_ptr<const DflashWeights> weights,
              HeadRuntime runtime);

  const DflashConfig& config() const override { return config_; }
  Context NewContext() override;
  void Release(Context context) override;
  int64_t Length(Context context) const override;
  void Share(Context context, absl::Span<const TokenId> text,
             absl::string_view salt) override;
  absl::Status Reserve(const NewRows& rows) override;
  FeatureStore& features() override { return features_; }
  void Extend(absl::Span<const NewRows> rows) override;
  absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>> Predict(
      absl::Span<const Block> blocks, int64_t width) override;

 private:
  // The keys and values that each layer made from the target's features.
  struct State {
    explicit State(KvPageStore* store) : kv(store) {}

    PagedKvCache kv;
    int64_t end_position = 0;  // after the last position that is in
  };
  // Rows `first` .. `first` + `count` - 1 of the new rows.
  struct Piece {
    const NewRows* rows = nullptr;
    int64_t first = 0;
    int64_t count = 0;
  };

  State& Get(Context context);
  const State& Get(Context context) const;
  // The first position to add, and how many there are.
  int64_t BeginOf(const NewRows& rows) const;
  int64_t CountOf(const NewRows& rows) const;
  void ExtendBy(absl::Span<const Piece> pieces);
  NativePass ContextPass(absl::Span<const Piece> pieces);
  NativePass BlockPass(absl::Span<const Block> blocks);
  void RunLayers(const NativePass& pass);

  const DflashConfig config_;
  const std::unique_ptr<const DflashWeights> weights_;
  const HeadRuntime runtime_;
  NativeLayers layers_;
  CandidateHead head_;
  HostFeatureStore features_;
  KvPageStore pages_;
  std::unordered_map<Context, State> contexts_;  // hold pages of pages_
  Context next_context_ = 1;

  std::vector<float> inputs_;  // [rows, width], of a context pass
  std::vector<float> x_;       // [rows, hidden]
  std::vector<float> normed_;  // [rows, hidden]
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
