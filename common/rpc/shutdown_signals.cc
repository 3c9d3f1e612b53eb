#include "common/rpc/shutdown_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "common/base/check.h"

namespace espalier {
namespace {

sigset_t TermAndInt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

int WaitForOne() {
  const sigset_t set = TermAndInt();
  int signal_number = 0;
  ESPALIER_CHECK(sigwait(&set, &signal_number) == 0);
  return signal_number;
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = TermAndInt();
  ESPALIER_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

int ShutdownSignals::Wait() {
  const int first = WaitForOne();
  // Detached: the thread runs until the process ends.
  std::thread([] { _exit(128 + WaitForOne()); }).detach();
  return first;
}

void ShutdownSignals::Raise() { kill(getpid(), SIGTERM); }

}  // namespace espalier
