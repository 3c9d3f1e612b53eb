#ifndef ESPALIER_COMMON_RPC_DEVICE_LOSS_H_
#define ESPALIER_COMMON_RPC_DEVICE_LOSS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/notification.h"
#include "common/obs/log.h"
#include "common/rpc/shutdown_signals.h"

namespace espalier {

// Ends a service whose device is lost to this process: nothing is drained, and
// the loss is the error of main, so that a supervisor starts the service again.
class DeviceLoss {
 public:
  explicit DeviceLoss(ShutdownSignals& signals) : signals_(signals) {}

  // Any thread, at most once.
  void Report(const absl::Status& why) {
    LogError(absl::StrCat("the device is lost: ", why.message()));
    why_ = why;
    lost_.Notify();
    signals_.Raise();
  }

  // Until when to drain.
  absl::Time Shorten(absl::Time deadline) const {
    return lost_.HasBeenNotified() ? absl::Now() : deadline;
  }

  // The exit status of main, or the loss.
  absl::StatusOr<int> Or(int exit_status) const {
    if (lost_.HasBeenNotified()) return why_;
    return exit_status;
  }

 private:
  ShutdownSignals& signals_;
  absl::Status why_;
  Notification lost_;  // then why_ is set
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_DEVICE_LOSS_H_
