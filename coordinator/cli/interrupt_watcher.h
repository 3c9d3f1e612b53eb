#ifndef ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_
#define ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_

#include <stop_token>
#include <thread>

namespace espalier::cli {

// Turns Ctrl-C (SIGINT) into a stop request; a second one ends the process.
// Make it before any other thread: SIGINT stays blocked in the calling thread
// and in those it starts.
class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void Watch();

  int signal_fd_;
  int end_fd_;  // readable: the watcher is being destroyed
  std::stop_source source_;
  std::thread thread_;
};

// For a process image that comes after exec and handles SIGINT itself.
void UnblockInterrupts();

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_INTERRUPT_WATCHER_H_
