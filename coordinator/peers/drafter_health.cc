#include "coordinator/peers/drafter_health.h"

namespace espalier::coordinator {
namespace {

constexpr double kClosed = 0;
constexpr double kOpen =
    2;  // other systems use 1 for half-open, which does not exist here

}  // namespace

DrafterHealth::DrafterHealth(int timeouts_to_open,
                             const DrafterMetrics& metrics)
    : timeouts_to_open_(timeouts_to_open), metrics_(metrics) {
  Show(/*up=*/false);
}

void DrafterHealth::OnAnswer() {
  consecutive_timeouts_ = 0;
  Show(/*up=*/true);
}

void DrafterHealth::OnUnavailable() {
  consecutive_timeouts_ = 0;
  Show(/*up=*/false);
}

void DrafterHealth::OnTimeout() {
  ++consecutive_timeouts_;
  Show(/*up=*/false);
}

void DrafterHealth::Show(bool up) {
  up_ = up;
  metrics_.up.Set(up ? 1 : 0);
  metrics_.circuit_state.Set(worth_waiting_for() ? kClosed : kOpen);
}

}  // namespace espalier::coordinator
