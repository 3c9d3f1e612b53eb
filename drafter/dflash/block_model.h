#ifndef ESPALIER_DRAFTER_DFLASH_BLOCK_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_BLOCK_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/types.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/engine/feature_store.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// A block drafter (DFlash, arXiv 2602.06036): one parallel pass over a root and
// the masks after it gives for each mask a distribution over the token in its
// place. It holds a context for each sequence, what it made of the target's
// features, on whatever device it runs; callers name them. A result depends on
// its own sequence only, bit for bit. One thread.
class BlockModel {
 public:
  virtual ~BlockModel() = default;

  virtual const DflashConfig& config() const = 0;

  // Names a context. Never reused.
  using Context = int64_t;

  // Makes an empty context. REQUIRES: it is alive, here and below.
  virtual Context NewContext() = 0;
  virtual void Release(Context context) = 0;
  // Returns the positions that are in. Those with lost features are left out.
  virtual int64_t Length(Context context) const = 0;

  // Takes positions from contexts of the same text and salt, and offers this
  // one's to them, as LanguageModel::Share does. A context that lacks positions
  // shares nothing. `text`: what comes before the root.
  virtual void Share(Context /*context*/, absl::Span<const TokenId> /*text*/,
                     absl::string_view /*salt*/) {}

  // Returns the store of the target's features, of which contexts are made.
  virtual FeatureStore& features() = 0;

  // The part of `features` that features() holds, from the context's end on and
  // before the root.
  struct NewRows {
    Context context = 0;
    SequenceId id;
    FeatureRange features;
    int64_t root_position = 0;
  };
  // Reserves room for the rows and for a block. RESOURCE_EXHAUSTED: the memory
  // of all contexts is used up.
  virtual absl::Status Reserve(const NewRows& rows) = 0;
  // Adds the rows to their contexts. REQUIRES: room, and each context once.
  // RESOURCE_EXHAUSTED: the device has no memory for the pass or its features;
  // some rows may be in.
  virtual absl::Status Extend(absl::Span<const NewRows> rows) = 0;

  struct Block {
    Context context = 0;  // with room, not empty
    TokenId root = 0;
    int64_t root_position = 0;
    // The parameters of each wanted position after the root, fewer than
    // block_size.
    std::vector<SamplingParams> wanted = {};
  };
  // Candidates for each block's wanted positions, as CandidateHead gives them;
  // on a device at most cuda::kMaxRanked. INTERNAL: a logit is not finite.
  // UNAVAILABLE: the device failed. RESOURCE_EXHAUSTED: as of Extend.
  virtual absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>>
  Predict(absl::Span<const Block> blocks, int64_t width) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_BLOCK_MODEL_H_
