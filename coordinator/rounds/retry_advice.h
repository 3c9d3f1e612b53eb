#ifndef ESPALIER_COORDINATOR_ROUNDS_RETRY_ADVICE_H_
#define ESPALIER_COORDINATOR_ROUNDS_RETRY_ADVICE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace espalier::coordinator {

// When clients that found no place should come again: one for each place that
// becomes free, as the recent requests have run. Thread-safe.
class RetryAdvice {
 public:
  // `first`: the time between two free places until a request has ended.
  RetryAdvice(int64_t places, absl::Duration first);

  // A request that ran for this time has left its place.
  void PlaceFreed(absl::Duration ran);

  // For the next client that is refused. 10 ms .. 60 s.
  absl::Duration Next();

 private:
  const int64_t places_;
  Mutex mutex_;
  // Between two free places, when all are taken.
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_);
  bool is_measured_ ABSL_GUARDED_BY(mutex_) = false;
  // Clients that were refused, less the places that became free since.
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_RETRY_ADVICE_H_
