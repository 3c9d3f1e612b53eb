#ifndef ESPALIER_COORDINATOR_API_STATUS_HISTORY_H_
#define ESPALIER_COORDINATOR_API_STATUS_HISTORY_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "common/base/mutex.h"

namespace espalier::coordinator {

// Counters of one moment, since the start of the server.
struct StatusSample {
  double at_s = 0;  // since the start
  double generated_tokens = 0;
  double emitted_tokens = 0;  // of rounds that speculated
  double drafts = 0;          // those rounds
  double failed_requests = 0;

  bool operator==(const StatusSample&) const = default;
};

// The last samples of a server, for who opens the status page later.
// Thread-safe.
class StatusHistory {
 public:
  static constexpr size_t kLength = 121;  // ten minutes of 5 s

  void Add(const StatusSample& sample) {
    MutexLock lock(&mutex_);
    samples_.push_back(sample);
    if (samples_.size() > kLength) samples_.pop_front();
  }

  std::vector<StatusSample> Samples() const {  // oldest first
    MutexLock lock(&mutex_);
    return {samples_.begin(), samples_.end()};
  }

 private:
  mutable Mutex mutex_;
  std::deque<StatusSample> samples_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_STATUS_HISTORY_H_
