#include "coordinator/cli/interrupt_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "common/base/check.h"
#include "coordinator/cli/app.h"

namespace espalier::cli {
namespace {

sigset_t Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatcher::InterruptWatcher() {
  const sigset_t interrupts = Interrupts();
  ESPALIER_CHECK(pthread_sigmask(SIG_BLOCK, &interrupts, nullptr) == 0);
  signal_fd_ = signalfd(-1, &interrupts, SFD_CLOEXEC);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  ESPALIER_CHECK(signal_fd_ >= 0 && end_fd_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

InterruptWatcher::~InterruptWatcher() {
  const uint64_t one = 1;
  ESPALIER_CHECK(write(end_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(signal_fd_);
  close(end_fd_);
}

std::stop_token InterruptWatcher::token() const {
  MutexLock lock(&mutex_);
  return source_.get_token();
}

std::stop_token InterruptWatcher::Renew() {
  MutexLock lock(&mutex_);
  source_ = std::stop_source();
  return source_.get_token();
}

void InterruptWatcher::Watch() {
  pollfd fds[] = {{.fd = end_fd_, .events = POLLIN, .revents = 0},
                  {.fd = signal_fd_, .events = POLLIN, .revents = 0}};
  while (true) {
    if (poll(fds, 2, /*timeout=*/-1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) continue;
    // Under the lock, so that Renew does not come before the callbacks: their
    // owner may end them once it has the next token.
    MutexLock lock(&mutex_);
    if (!source_.request_stop()) std::_Exit(kExitInterrupted);
  }
}

}  // namespace espalier::cli
