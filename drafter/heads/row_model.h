#ifndef ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_
#define ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/paged_kv_cache.h"
#include "common/model/native/row_batch.h"
#include "common/spec/types.h"
#include "drafter/gumbel_coupling.h"
#include "drafter/heads/candidate_head.h"

namespace espalier::drafter {

// A network that predicts the next token, row by row: a draft head or a small
// model. One thread.
class RowModel {
 public:
  virtual ~RowModel() = default;

  // Length of an output row.
  virtual int64_t hidden_size() const = 0;

  // Rows of one sequence: a tree after the cached prefix, whose first
  // `cached_rows` rows were computed before.
  struct Rows {
    PagedKvCache* cache = nullptr;  // with room for the whole tree
    RowTree tree;
    int64_t cached_rows = 0;
    absl::Span<const TokenId> tokens;  // [rows]
    // [rows, hidden]: for a node of a draft tree, the output of its parent.
    // Only heads read them.
    absl::Span<const float> features;
    absl::Span<float> outputs;  // [rows, hidden], written

    int64_t rows() const { return tree.rows() - cached_rows; }
  };
  // Puts the K/V of the rows into the caches.
  virtual void Run(absl::Span<const Rows> batch) = 0;

  // See CandidateHead. outputs: [queries, hidden], as Run writes them.
  virtual absl::StatusOr<std::vector<std::vector<Candidate>>> Rank(
      const float* outputs, absl::Span<const CandidateHead::Query> queries,
      int64_t width) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_
