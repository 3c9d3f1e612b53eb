#ifndef ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_
#define ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_

#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace espalier::cli {

// Turns Ctrl-C (SIGINT) into a stop request; a second one ends the process,
// unless Renew() was called in between. Thread-safe. Create it before any other
// thread: SIGINT stays blocked in the calling thread and in the threads that it
// starts. Callbacks of the tokens must not call the watcher.
class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

  std::stop_token token() const;
  // Arms a new stop for the next Ctrl-C and returns its token.
  std::stop_token Renew();

 private:
  void Watch();

  int signal_fd_;
  int end_fd_;  // readable: the watcher is being destroyed
  mutable Mutex mutex_;
  std::stop_source source_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_
