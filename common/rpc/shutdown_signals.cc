#include "common/rpc/shutdown_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/obs/log.h"

namespace espalier {
namespace {

sigset_t TermAndInt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

sigset_t WithHangUp(sigset_t set) {
  sigaddset(&set, SIGHUP);
  return set;
}

int WaitForOne(const sigset_t& set) {
  int signal_number = 0;
  ESPALIER_CHECK(sigwait(&set, &signal_number) == 0);
  return signal_number;
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = WithHangUp(TermAndInt());
  ESPALIER_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

int ShutdownSignals::Wait() {
  int first = SIGHUP;
  while ((first = WaitForOne(WithHangUp(TermAndInt()))) == SIGHUP) {
    const absl::Status done = reload_.Run();
    if (done.ok()) {
      LogInfo("SIGHUP: the files are read again");
    } else {
      LogError(
          absl::StrCat("SIGHUP: everything stays as it was: ", done.message()));
    }
  }
  // Detached: the thread runs until the process ends.
  std::thread([] { _exit(128 + WaitForOne(TermAndInt())); }).detach();
  return first;
}

void ShutdownSignals::Raise() { kill(getpid(), SIGTERM); }

}  // namespace espalier
