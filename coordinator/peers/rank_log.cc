#include "coordinator/peers/rank_log.h"

#include <algorithm>

namespace espalier::coordinator {

void RankLog::Add(const TokenRanks& rows) {
  const int64_t end = this->end() + rows.size();
  rows_.Append(rows);
  first_ = end - rows_.size();
  Release(end - kMaxRows);
}

void RankLog::Release(int64_t row) {
  const int64_t count = std::clamp<int64_t>(row - first_, 0, rows_.size());
  if (count == 0) return;
  rows_.DropFirst(count);
  first_ += count;
}

TokenRanks RankLog::From(int64_t row) const {
  TokenRanks rows;
  if (row >= end()) return rows;
  rows = rows_;
  rows.DropFirst(std::max<int64_t>(0, row - first_));
  return rows;
}

}  // namespace espalier::coordinator
