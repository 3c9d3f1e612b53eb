#ifndef ESPALIER_COORDINATOR_PEERS_RANK_LOG_H_
#define ESPALIER_COORDINATOR_PEERS_RANK_LOG_H_

#include <cstdint>

#include "common/speculation/token_ranks.h"

namespace espalier::coordinator {

// The ranks that came with a session's verifications, until all drafters that
// want them have them. Rows are numbered from 0 on; the oldest are dropped
// first. Lives on the executor.
class RankLog {
 public:
  static constexpr int64_t kMaxRows = kMaxPromptRanks + 256;

  void Add(const TokenRanks& rows);
  // All drafters have the rows before `row`.
  void Release(int64_t row);

  // The number after the last row.
  int64_t end() const { return first_ + rows_.size(); }
  // The rows from `row` on that are there.
  TokenRanks From(int64_t row) const;

 private:
  int64_t first_ = 0;  // number of the first row that is there
  TokenRanks rows_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_RANK_LOG_H_
