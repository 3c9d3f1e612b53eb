#ifndef ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_
#define ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "drafter/engine/drafter.h"
#include "drafter/engine/option_reader.h"
#include "drafter/heads/dynamic_tree.h"
#include "drafter/heads/row_model.h"
#include "drafter/trees/gumbel_coupling.h"
#include "drafter/trees/noise_calibration.h"
#include "drafter/trees/sampled_tree.h"

namespace espalier::drafter {

// A sequence of a model, with a row for each committed token that it has run.
struct GrownSequence {
  // `owner` must outlive the sequence.
  explicit GrownSequence(RowModel* owner)
      : model(*owner), rows(owner->NewSequence()) {}
  ~GrownSequence() { model.Release(rows); }
  GrownSequence(const GrownSequence&) = delete;
  GrownSequence& operator=(const GrownSequence&) = delete;

  int64_t length() const { return model.Length(rows); }

  RowModel& model;
  const RowModel::Sequence rows;

  // The model's prediction after the committed text and `path`.
  struct Forecast {
    std::vector<TokenId> path;
    std::vector<Candidate>
        candidates;  // as they are before ApplyGumbelCoupling
  };
  // The forecasts of the last tree, which was drafted when forecast_at tokens
  // were committed. Filled under sampling only.
  std::vector<Forecast> forecasts;
  int64_t forecast_at = 0;
};

// Grows the trees of a batch level by level; one pass of the model serves a
// level of all trees. Trees are best-first (dynamic_tree.h), with the noise
// weighted by what has been learned (noise_calibration.h), or sampled
// (sampled_tree.h). One thread.
class TreeGrower {
 public:
  struct Options {
    DynamicTree::Shape tree;
    SampledShape sampled;               // for requests that sample
    std::optional<double> noise_scale;  // none: learned
    // Is true if it drafts after a lookahead. A head then uses its own states
    // in place of the target's, so such trees are worse than those of the round
    // itself.
    bool supports_lookahead = false;
  };

  // `model` must outlive the grower.
  TreeGrower(RowModel& model, const Options& options)
      : model_(model), options_(options), calibration_(options.noise_scale) {}

  bool supports_lookahead() const { return options_.supports_lookahead; }

  // Compares the last tree's forecasts with the tokens that the target has
  // emitted since. Call once a round, before the next tree grows.
  void Learn(const SequenceView& view, GrownSequence& sequence);

  // Runs a view's committed tokens so that the sequence's last row predicts the
  // token after the root; null: not possible now.
  using CatchUp =
      absl::FunctionRef<absl::StatusOr<GrownSequence*>(const SequenceView&)>;

  // Returns a tree for each view; the root alone for those that could not catch
  // up. If catching up fails for lack of room (RESOURCE_EXHAUSTED), `drafter`
  // forgets the sequence: others keep their room, this one starts again. A tree
  // that finds no room for its rows ends early. Other errors come from
  // `catch_up` and the model.
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> views, Drafter& drafter, CatchUp catch_up);

 private:
  class Growth;
  struct Job {
    const SequenceView* view = nullptr;
    GrownSequence* sequence = nullptr;
  };

  absl::StatusOr<std::vector<TokenTree>> Grow(absl::Span<const Job> jobs);
  absl::Status FollowLookahead(Growth& growth) const;
  absl::Status RunFrontiers(std::vector<Growth*>& growing) const;
  absl::Status ExpandFrontiers(absl::Span<Growth* const> growing);

  RowModel& model_;
  const Options options_;
  NoiseCalibration calibration_;
};

// Reads the options of drafters that grow trees: width (nodes of a level that
// are expanded, and children of each), least_reach (see dynamic_tree.h; default
// 0.1), noise_scale, drafts_ahead (whether to draft after a lookahead; default:
// the argument), and those of sampled_tree.h.
TreeGrower::Options ReadGrowerOptions(OptionReader& reader,
                                      bool supports_lookahead);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_TREE_GROWER_H_
