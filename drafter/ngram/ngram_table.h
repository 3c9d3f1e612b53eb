#ifndef ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_H_
#define ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "drafter/ngram/successor_counts.h"

namespace espalier::drafter {

// The most frequent successors of each context of 0 .. order - 1 tokens in a
// training text. Order 2 is a bigram table. NgramTableBuilder makes it,
// ngram_table_file.h stores it. Immutable, hence thread-safe.
class NgramTable {
 public:
  static constexpr int64_t kMaxOrder = 5;

  // The whole content. Contexts of one length are sorted; so are the successors
  // of a context, most frequent first, ties to the lower token.
  struct Level {
    std::vector<TokenId> contexts;  // [num_contexts * length], row by row
    std::vector<int64_t> totals;    // [num_contexts] occurrences, >= 1
    std::vector<int64_t> distinct;  // [num_contexts] successors before pruning
    std::vector<int64_t> ends;      // [num_contexts] into `successors`
    std::vector<SuccessorCount> successors;

    int64_t num_contexts() const { return static_cast<int64_t>(totals.size()); }
    friend bool operator==(const Level&, const Level&) = default;
  };
  struct Content {
    int64_t vocab_size = 0;
    uint64_t tokenizer_fingerprint = 0;  // 0: not known
    std::vector<Level> levels = {};      // [order], by context length

    friend bool operator==(const Content&, const Content&) = default;
  };

  // INVALID_ARGUMENT names what in the content is out of range or order.
  static absl::StatusOr<NgramTable> Create(Content content);

  int64_t order() const { return static_cast<int64_t>(content_.levels.size()); }
  const Content& content() const { return content_; }

  // Returns the successors of exactly this context; nullopt if it never
  // occurred. The span lives as long as the table. REQUIRES: context.size() <
  // order().
  std::optional<SuccessorCounts> Find(absl::Span<const TokenId> context) const;

 private:
  explicit NgramTable(Content content);

  Content content_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_NGRAM_TABLE_H_
