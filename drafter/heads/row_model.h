#ifndef ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_
#define ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/types.h"
#include "drafter/engine/feature_store.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// How many rows of a long prompt drafters append at a time.
inline constexpr int64_t kRowsPerAppend = 256;

// A network that predicts the next token, row by row: a draft head or a small
// model. It holds its sequences, their K/V and the outputs of their rows, on
// whatever device it runs; callers name them. One thread.
class RowModel {
 public:
  virtual ~RowModel() = default;

  // Names a sequence. Never reused.
  using Sequence = int64_t;

  // Makes an empty sequence. REQUIRES: it is alive, here and below.
  virtual Sequence NewSequence() = 0;
  virtual void Release(Sequence sequence) = 0;
  // Its kept rows.
  virtual int64_t Length(Sequence sequence) const = 0;
  // Drops kept rows from `length` on, and all others.
  virtual void Truncate(Sequence sequence, int64_t length) = 0;
  // Makes room for so many rows. RESOURCE_EXHAUSTED: there is none.
  virtual absl::Status Reserve(Sequence sequence, int64_t rows) = 0;

  // Takes kept rows from sequences whose rows have the same labels up to there,
  // and offers this one's to them, as LanguageModel::Share does. A label says
  // what a row depends on, beside the labels before it; the sequence's kept
  // rows have the first of `labels`. If the sequence grows, its last output is
  // not known until rows are appended.
  virtual void Share(Sequence /*sequence*/,
                     absl::Span<const TokenId> /*labels*/,
                     absl::string_view /*salt*/) {}

  // Returns the store of the target's states that rows read; null: they read
  // none.
  virtual FeatureStore* features() = 0;

  // States of consecutive positions in features().
  struct States {
    SequenceId id;
    int64_t position = 0;  // of the first
  };
  // Runs a chain of rows after the kept ones, and keeps it. states: as many as
  // tokens, for a head that reads them. REQUIRES: room. RESOURCE_EXHAUSTED: the
  // device has no memory for the pass or its states; nothing is kept.
  virtual absl::Status Append(Sequence sequence,
                              absl::Span<const TokenId> tokens,
                              const States& states) = 0;

  // Rows of a tree after the kept ones, which is run in parts. Their outputs
  // stay until the sequence's next tree begins, or rows are kept.
  struct TreeRows {
    Sequence sequence = 0;
    absl::Span<const int32_t> parents;  // [rows so far], kPrefixParent: none
    absl::Span<const TokenId> tokens;   // of the last of these, which are new
  };
  // A head reads the output of a row's parent in place of the target's state.
  // REQUIRES: room, at least one kept row, each sequence once, and trees of at
  // most max_tree_rows() rows. RESOURCE_EXHAUSTED: as of Append.
  virtual absl::Status Run(absl::Span<const TreeRows> batch) = 0;
  virtual int64_t max_tree_rows() const {
    return std::numeric_limits<int32_t>::max();
  }

  // A row, and the token that its output predicts.
  struct Query {
    Sequence sequence = 0;
    int32_t row = 0;  // of the tree; kPrefixParent: the last kept row
    SamplingParams sampling;
    int64_t position = 0;  // of that token
  };
  // Returns the `width` likeliest tokens after each row, as CandidateHead gives
  // them; on a device at most cuda::kMaxRanked. INTERNAL: a logit is not
  // finite. UNAVAILABLE: the device failed. RESOURCE_EXHAUSTED: as of Append.
  virtual absl::StatusOr<std::vector<std::vector<Candidate>>> Rank(
      absl::Span<const Query> queries, int64_t width) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_
