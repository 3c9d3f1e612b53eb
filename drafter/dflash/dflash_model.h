#ifndef ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native_layers.h"
#include "common/model/native_pass.h"
#include "common/model/paged_kv_cache.h"
#include "common/spec/features.h"
#include "common/spec/sampling_params.h"
#include "common/spec/types.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/dflash_weights.h"
#include "drafter/foresight.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_machine.h"

namespace espalier::drafter {

// What the layers see of a sequence: keys and values that each made of the
// target's features. Positions that were lost are left out.
struct DflashContext {
  explicit DflashContext(KvPageStore* store) : kv(store) {}

  PagedKvCache kv;
  int64_t end_position = 0;  // behind the last position that is in
};

// A block drafter (DFlash, arXiv 2602.06036): a root and masks behind it, one
// parallel pass, and for each mask a law over the token in its place. A result
// depends on its own sequence only, to the bit. One thread.
class DflashModel {
 public:
  DflashModel(const DflashConfig& config,
              std::unique_ptr<const DflashWeights> weights,
              HeadMachine machine);

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
  // Room for them and for a block. RESOURCE_EXHAUSTED: the memory of all
  // contexts is used up.
  absl::Status Reserve(const NewRows& rows);
  // REQUIRES: room, and each context once.
  void Extend(absl::Span<const NewRows> rows);

  struct Block {
    DflashContext* context = nullptr;  // with room, not empty
    TokenId root = 0;
    int64_t root_position = 0;
    // Of the positions behind the root that are wanted, fewer than block_size.
    std::vector<SamplingParams> wanted;
  };
  // For each block the positions that are wanted, as CandidateHead gives them.
  // INTERNAL: a logit is not finite.
  absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>> Predict(
      absl::Span<const Block> blocks, int64_t width);

 private:
  // Rows `first` .. `first` + `count` - 1 of what is new.
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
  const HeadMachine machine_;
  NativeLayers layers_;
  CandidateHead head_;
  KvPageStore pages_;

  std::vector<float> features_;  // [rows, width], of a context pass
  std::vector<float> x_;         // [rows, hidden]
  std::vector<float> normed_;    // [rows, hidden]
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_MODEL_H_
