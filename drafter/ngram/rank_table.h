#ifndef ESPALIER_DRAFTER_NGRAM_RANK_TABLE_H_
#define ESPALIER_DRAFTER_NGRAM_RANK_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/speculation/token_ranks.h"
#include "common/speculation/types.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// The target's mean distribution after two tokens, and after one, over the rows
// that it has seen of each (after Luo et al., "Token Recycling", arXiv
// 2408.08696, which keeps the last row after one token). Recent rows weigh
// most: from kFading rows on, older ones fade. Two generations bound the
// memory: what was not used while one filled up is dropped. Not thread-safe.
class RankTable {
 public:
  static constexpr int64_t kFading = 32;

  // max_bytes: of both generations together, roughly.
  explicit RankTable(int64_t max_bytes) : max_bytes_(max_bytes / 2) {}

  // Takes all rows. O(top) for each.
  void Observe(const TokenRanks& ranks);

  // Returns the mean of the rows after the last two tokens of `context`, or
  // else after the last one; empty: none was seen. Any order.
  std::vector<Candidate> After(absl::Span<const TokenId> context);

  int64_t num_bytes() const { return young_.bytes + old_.bytes; }

 private:
  struct Entry {
    TokenId token = 0;
    float chance = 0;
  };
  struct Row {
    int64_t count = 0;           // rows seen
    std::vector<Entry> entries;  // by token
  };
  struct Generation {
    absl::flat_hash_map<uint64_t, Row> rows;
    int64_t bytes = 0;
  };

  static int64_t BytesOf(const Row& row);
  // Moves the row into the young generation. Null: there is none.
  Row* Find(uint64_t key);
  void Observe(uint64_t key, absl::Span<const Entry> seen);
  static void Average(absl::Span<const Entry> seen, Row& row);
  void Age();

  const int64_t max_bytes_;  // of a generation
  Generation young_, old_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_RANK_TABLE_H_
