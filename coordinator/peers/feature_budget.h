#ifndef ESPALIER_COORDINATOR_PEERS_FEATURE_BUDGET_H_
#define ESPALIER_COORDINATOR_PEERS_FEATURE_BUDGET_H_

#include <algorithm>
#include <cstdint>

#include "coordinator/metrics/coordinator_metrics.h"

namespace espalier::coordinator {

// Counts what all sessions' feature logs together may hold. Lives on the
// executor; outlives the logs.
class FeatureBudget {
 public:
  struct Limits {
    // A session may always hold so much, and keeps so much of what all its
    // drafters have, for one that restarts.
    int64_t session_bytes = int64_t{64} << 20;
    // Held for all sessions before what a drafter still lacks is dropped.
    int64_t all_bytes = int64_t{1} << 30;
    // Most that one request to a drafter carries.
    int64_t request_bytes = int64_t{64} << 20;
  };

  FeatureBudget(const Limits& limits, const FeatureMetrics& metrics)
      : limits_(limits), metrics_(metrics) {}

  const Limits& limits() const { return limits_; }

  // The most that a log may hold that now holds `bytes` of what is counted.
  int64_t RoomFor(int64_t bytes) const {
    return std::max(limits_.session_bytes,
                    limits_.all_bytes - (used_bytes_ - bytes));
  }

  // A log that held `from` bytes holds `to` bytes.
  void Change(int64_t from, int64_t to) {
    used_bytes_ += to - from;
    metrics_.held_bytes.Set(static_cast<double>(used_bytes_));
  }

  // Positions whose features a drafter lacked and will not get.
  void CountLost(int64_t positions) {
    metrics_.lost_positions.Increment(static_cast<double>(positions));
  }

 private:
  const Limits limits_;
  const FeatureMetrics& metrics_;
  int64_t used_bytes_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_FEATURE_BUDGET_H_
