#ifndef ESPALIER_COORDINATOR_PEERS_DRAFTER_HEALTH_H_
#define ESPALIER_COORDINATOR_PEERS_DRAFTER_HEALTH_H_

#include <atomic>

#include "coordinator/metrics/coordinator_metrics.h"

namespace espalier::coordinator {

// A circuit breaker for one drafter over all sessions. After a number of
// timeouts in a row no session waits for it any more, so that a hung drafter
// does not cost every new session a deadline. It still gets requests, and its
// first answer within the deadline closes the circuit. Updated on the executor,
// read by any thread.
class DrafterHealth {
 public:
  DrafterHealth(int timeouts_to_open, const DrafterMetrics& metrics);

  bool worth_waiting_for() const {
    return consecutive_timeouts_ < timeouts_to_open_;
  }

  // Returns true if it answered the last time.
  bool up() const { return up_; }

  // An answer came in time: a tree, or an error other than UNAVAILABLE.
  void OnAnswer();
  // The drafter is not reachable. Reported at once, so it costs no waiting.
  void OnUnavailable();
  void OnTimeout();

 private:
  void Show(bool up);

  const int timeouts_to_open_;
  const DrafterMetrics& metrics_;
  std::atomic<int> consecutive_timeouts_ = 0;
  std::atomic<bool> up_ = false;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_DRAFTER_HEALTH_H_
