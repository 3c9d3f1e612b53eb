#ifndef ESPALIER_COMMON_BASE_IDLE_SPIN_H_
#define ESPALIER_COMMON_BASE_IDLE_SPIN_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace espalier {

// Decides how long a thread that has run out of work looks for more before it
// sleeps. Waking it takes 30 to 60 us; a spin takes a core. So a thread spins
// for a moment, and only while its work comes in close succession. One thread.
class IdleSpin {
 public:
  struct Limits {
    absl::Duration length = absl::ZeroDuration();  // of a spin; zero: none
    // A thread that was idle for longer sleeps at once the next time.
    absl::Duration longest_idle = absl::Milliseconds(10);
  };

  explicit IdleSpin(const Limits& limits) : limits_(limits) {}

  // The thread has run out of work. Returns the end of its spin; `now`: it
  // sleeps at once.
  absl::Time Begin(absl::Time now) {
    idle_since_ = now;
    return work_is_close_ ? now + limits_.length : now;
  }

  // There is work again.
  void End(absl::Time now) {
    work_is_close_ = now - idle_since_ <= limits_.longest_idle;
  }

 private:
  const Limits limits_;
  absl::Time idle_since_ = absl::InfinitePast();
  bool work_is_close_ = false;
};

// Returns how the thread of an engine waits for work whose passes run on a
// device: beside a GPU ("cuda", "cuda:1") it spins first, because a round is a
// few milliseconds there, and the cores are free.
inline IdleSpin::Limits SpinBeside(absl::string_view device) {
  if (!absl::StartsWith(device, "cuda")) return {};
  return {.length = absl::Microseconds(200)};
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_IDLE_SPIN_H_
