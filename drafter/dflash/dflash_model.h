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
#include "common/spec/features.h"
#include "common/spec/sampling_params.h"
#include "common/spec/types.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/dflash_weights.h"
#include "drafter/gumbel_coupling.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_runtime.h"

namespace espalier::drafter {

// A sequence's context: the keys and values that each layer made from the
// target's features. Positions with lost features are left out.
struct DflashContext {
  explicit DflashContext(KvPageStore* store) : kv(store) {}

  PagedKvCache kv;
  int64_t end_position = 0;  // after the last position that is in
};

// A block drafter (DFlash, arXiv 2602.06036): one parallel pass over a root and
// the masks after it gives for each mask a distribution over the token in its
// place. A result depends on its own sequence only, bit for bit. One thread.
class DflashModel {
 public:
  DflashModel(const DflashConfig& config,
              std::unique_ptr<const DflashWeights> weights,
              HeadRuntime runtime);

  const DflashConfig& config() const { return config_; }

  // Must not outlive the model.
  std::unique_ptr<DflashContext> NewContext();

  // Features of the positions from the context's end on, and before the root.
  struct NewRows {
    DflashContext* context = nullptr;
    const FeatureRows* features = nullptr;
    int64_t root_position = 0;

    int64_t begin() const;
    int64_t count() const;
  };
  // Reserves room for the rows and for a block. RESOURCE_EXHAUSTED: the memory
  // of all contexts is used up.
  absl::Status Reserve(const NewRows& rows);
  // Adds the rows to their contexts. REQUIRES: room, and each context once.
  void Extend(absl::Span<const NewRows> rows);

  struct Block {
    DflashContext* context = nullptr;  // with room, not empty
    TokenId root = 0;
    int64_t root_position = 0;
    // For each wanted position after the root, fewer than block_size.
    std::vector<SamplingParams> wanted;
  };
  // Candidates for each block's wanted positions, as CandidateHead gives them.
  // INTERNAL: a logit is not finite.
  absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>> Predict(
      absl::Span<const Block> blocks, int64_t width);

 private:
  // Rows `first` .. `first` + `count` - 1 of the new rows.
  struct Piece {
    const NewRows* rows = nullptr;
    int64_t first = 0;
    int64_t count = 0;
  };

  void ExtendBy(absl::Span<const Piece> pieces);
  NativePass ContextPass(absl::Span<const Piece> pieces);
  NativePass BlockPass(absl::Span<const Block> blocks);
  void RunLayers(const NativePass& pass);

  const DflashConfig config_;
  const std::unique_ptr<const DflashWeights> weights_;
  const HeadRuntime runtime_;
  NativeLayers layers_;
  CandidateHead head_;
  KvPageStore pages_;

  std::vector<float> features_;  // [rows, width], of a context pass
  std::vector<float> x_;         // [rows, hidden]
  std::vector<float> normed_;    // [rows, hidden]
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
