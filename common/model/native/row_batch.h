#ifndef ESPALIER_COMMON_MODEL_NATIVE_ROW_BATCH_H_
#define ESPALIER_COMMON_MODEL_NATIVE_ROW_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"

namespace espalier {

// The tree of one sequence's rows, and what each row attends to.
struct RowTree {
  int64_t prefix = 0;              // committed positions
  std::vector<int32_t> parents;    // [rows]
  std::vector<int64_t> positions;  // [rows] prefix + depth
  // The rows that each row sees, in ascending order (itself last, except in the
  // blocks of block drafters): those of row i are ancestors[ancestor_begin[i]
  // .. ancestor_begin[i + 1]).
  std::vector<int32_t> ancestors;
  std::vector<int64_t> ancestor_begin;  // [rows + 1]

  int64_t rows() const { return static_cast<int64_t>(parents.size()); }
  absl::Span<const int32_t> AncestorsOf(int64_t row) const {
    return absl::MakeConstSpan(ancestors).subspan(
        ancestor_begin[row], ancestor_begin[row + 1] - ancestor_begin[row]);
  }
};

struct RowLimits {
  int64_t max_rows = 0;
  int64_t max_chain_rows = 0;
  int64_t max_context = 0;
  int64_t vocab_size = 0;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
};
RowLimits RowLimitsOf(const ModelInfo& model);

// Checks the rows. This is the trust boundary of a pass. INVALID_ARGUMENT or
// OUT_OF_RANGE name the field and the limit.
absl::Status CheckRows(const SequenceRows& rows, int64_t prefix,
                       const RowLimits& limits);

// Checks a whole pass: it has rows, each sequence occurs once, and CheckRows
// holds. `length`: the committed positions of a sequence.
absl::Status CheckBatch(absl::Span<const SequenceRows> batch,
                        absl::FunctionRef<int64_t(CacheId)> length,
                        const RowLimits& limits);

// REQUIRES: parents as CheckRows wants them.
RowTree BuildRowTree(absl::Span<const int32_t> parents, int64_t prefix);

// INVALID_ARGUMENT unless `path` starts at a child of the prefix and every
// later row is a child of the one before.
absl::Status CheckPath(absl::Span<const int32_t> parents,
                       absl::Span<const int32_t> path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_ROW_BATCH_H_
