#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_PASS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_PASS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/model/logits/row_reduction.h"
#include "common/model/native/paged_kv_cache.h"
#include "common/model/native/row_batch.h"
#include "common/model/native/tapped_rows.h"
#include "common/speculation/types.h"

namespace espalier {

// The rows of all sequences of a pass, packed: products run over all of them,
// attention by sequence.
struct NativePass {
  struct Sequence {
    int64_t first_row = 0;
    RowTree tree;
    // Number of the tree's first rows whose K/V an earlier pass left after the
    // prefix: a tree may be computed level by level. The other rows belong to
    // this pass.
    int64_t cached_rows = 0;
    PagedKvCache* cache = nullptr;  // with room for the rows
    // Takes the logits of the sequence's wanted rows.
    int64_t num_logit_rows = 0;
    RowReduction* logits = nullptr;
    // Takes hidden states of its rows, unless null.
    TappedRows* tapped = nullptr;
    // [rows, hidden] after the final norm, unless empty.
    absl::Span<float> outputs = {};

    int64_t rows() const { return tree.rows() - cached_rows; }
  };

  std::vector<TokenId> tokens;      // [rows]
  std::vector<int64_t> positions;   // [rows]
  std::vector<int64_t> logit_rows;  // rows whose logits are wanted
  std::vector<Sequence> sequences;
  // The chunks of the output head's product (nn::ProductChunk) that hold a
  // token whose logits are wanted; nullopt: all. Reductions get no others.
  std::optional<std::vector<int64_t>> head_chunks = {};

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  int64_t num_logit_rows() const {
    return static_cast<int64_t>(logit_rows.size());
  }
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_PASS_H_
