#ifndef ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_
#define ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/paged_kv_cache.h"
#include "drafter/drafter.h"
#include "drafter/foresight.h"
#include "drafter/heads/dynamic_tree.h"
#include "drafter/heads/row_model.h"
#include "drafter/noise_calibration.h"
#include "drafter/option_reader.h"
#include "drafter/sampled_tree.h"

namespace espalier::drafter {

// What a model has computed of a sequence: a row for each committed token that
// it could run, and what follows the last.
struct GrownSequence {
  explicit GrownSequence(KvPageStore* pages) : cache(pages) {}

  PagedKvCache cache;
  std::vector<float> last_output;  // [hidden] of the last row; empty: none

  // What the model expected after the committed text and `path`.
  struct Forecast {
    std::vector<TokenId> path;
    std::vector<Candidate> candidates;  // as they are before Foresee
  };
  // Of the last tree, which was drafted after so many tokens. Under sampling.
  std::vector<Forecast> forecasts;
  int64_t forecast_at = 0;
};

// Grows the trees of a batch level by level, a level of all of them in one pass
// of the model. Trees are the best ones (dynamic_tree.h), with the noise
// foreseen as far as that has been worth it (noise_calibration.h), or drawn
// (sampled_tree.h). One thread.
class TreeGrower {
 public:
  struct Options {
    DynamicTree::Shape tree;
    SampledShape sampled;               // of requests that sample
    std::optional<double> noise_scale;  // none: learned
    // Whether to draft behind a guess. A head has its own states in place of
    // the target's then: such trees are poorer than those of the round itself.
    bool drafts_ahead = false;
  };

  // `model` must outlive the grower.
  TreeGrower(RowModel& model, const Options& options)
      : model_(model), options_(options), calibration_(options.noise_scale) {}

  bool drafts_ahead() const { return options_.drafts_ahead; }

  // Compares the last tree's forecasts with what the target has emitted since.
  // Once a round, before Draft grows on.
  void Learn(const SequenceView& view, GrownSequence& sequence);

  // Runs a chain of committed tokens, and keeps their K/V. features: [tokens,
  // hidden], or empty for a model that reads none. RESOURCE_EXHAUSTED: there is
  // no room for them.
  absl::Status Append(absl::Span<const TokenId> tokens,
                      absl::Span<const float> features,
                      GrownSequence& sequence);

  // Brings the sequence of a view up to its root, so that its last row predicts
  // what follows; null: it cannot be now.
  using CatchUp =
      absl::FunctionRef<absl::StatusOr<GrownSequence*>(const SequenceView&)>;

  // A tree for each view, its root alone for those that could not catch up. A
  // sequence that found no room for that (RESOURCE_EXHAUSTED) is forgotten by
  // `drafter`: others keep their room, this one starts again. A tree that finds
  // no room for its rows ends early. Other errors are those of `catch_up` and
  // of the model.
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> views, Drafter& drafter, CatchUp catch_up);

 private:
  class Growth;
  struct Job {
    const SequenceView* view = nullptr;
    GrownSequence* sequence = nullptr;
  };

  absl::StatusOr<std::vector<TokenTree>> Grow(absl::Span<const Job> jobs);
  absl::Status FollowGuess(Growth& growth);
  absl::Status RunFrontiers(std::vector<Growth*>& growing);
  absl::Status ExpandFrontiers(absl::Span<Growth* const> growing);

  RowModel& model_;
  const Options options_;
  NoiseCalibration calibration_;
};

// The options of drafters that grow trees: width (nodes of a level that are
// expanded, and children of each), least_reach (see dynamic_tree.h; default
// 0.1), noise_scale, drafts_ahead (default: the argument), and those of
// sampled_tree.h.
TreeGrower::Options ReadGrowerOptions(OptionReader& reader, bool drafts_ahead);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_
