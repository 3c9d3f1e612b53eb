#ifndef ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_
#define ESPALIER_DRAFTER_HEADS_ROW_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/paged_kv_cache.h"
#include "common/model/row_batch.h"
#include "common/spec/types.h"
#include "drafter/foresight.h"
#include "drafter/heads/candidate_head.h"

namespace espalier::drafter {

// A network that says what follows a token, row by row: a draft head, a small
// model. One thread.
class RowModel {
 public:
  virtual ~RowModel() = default;

  // Numbers of an output.
  virtual int64_t hidden_size() const = 0;

  // Rows of one sequence: a tree behind what its cache holds, of which
  // `cached_rows` were computed before.
  struct Rows {
    PagedKvCache* cache = nullptr;  // with room for the whole tree
    RowTree tree;
    int64_t cached_rows = 0;
    absl::Span<const TokenId> tokens;  // [rows]
    // [rows, hidden]: of a node of a draft tree the output of its parent. For
    // heads, which continue hidden states.
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
