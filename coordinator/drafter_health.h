#ifndef ESPALIER_COORDINATOR_DRAFTER_HEALTH_H_
#define ESPALIER_COORDINATOR_DRAFTER_HEALTH_H_

#include "coordinator/coordinator_metrics.h"

namespace espalier::coordinator {

// A circuit breaker for one drafter over all sessions: after a number of
// timeouts in a row nobody waits for it any more, so that a hung drafter does
// not cost every new session a deadline. It is still sent requests, and the
// first answer within its deadline closes the circuit. Lives on the executor.
class DrafterHealth {
 public:
  DrafterHealth(int timeouts_to_open, const DrafterMetrics& metrics);

  bool worth_waiting_for() const {
    return consecutive_timeouts_ < timeouts_to_open_;
  }

  // An answer came in time: a tree, or an error other than UNAVAILABLE.
  void OnAnswer();
  // Nobody is there. Said at once, so it costs no waiting.
  void OnUnavailable();
  void OnTimeout();

 private:
  void Show(bool up);

  const int timeouts_to_open_;
  const DrafterMetrics& metrics_;
  int consecutive_timeouts_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFTER_HEALTH_H_
