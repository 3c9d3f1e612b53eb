#include "coordinator/cli/failover.h"

#include <algorithm>
#include <functional>

#include "absl/time/clock.h"
#include "common/base/notification.h"

namespace espalier::cli {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

}  // namespace

Failover::Failover(size_t num_servers, const CallOptions& options)
    : num_servers_(num_servers),
      patience_(options.patience),
      interrupt_(options.interrupt),
      pause_(kFirstPause) {}

bool Failover::Next(bool progress) {
  if (num_servers_ == 1) return false;
  if (progress) failed_ = 0;
  if (failed_ == 0) {
    give_up_ = absl::Now() + patience_;
    pause_ = kFirstPause;
  }
  current_ = (current_ + 1) % num_servers_;
  if (++failed_ % num_servers_ == 0) Pause();
  return absl::Now() < give_up_ && !interrupt_.stop_requested();
}

void Failover::Pause() {
  Notification interrupted;
  std::stop_callback<std::function<void()>> on_stop(
      interrupt_, [&] { interrupted.Notify(); });
  interrupted.WaitUntil(std::min(give_up_, absl::Now() + pause_));
  pause_ = std::min(2 * pause_, kLongestPause);
}

}  // namespace espalier::cli
