#ifndef ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_
#define ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_

#include "common/base/reload.h"

namespace espalier {

// Lets a thread wait for SIGTERM and SIGINT, and read files again on SIGHUP.
// Create it first in main: it blocks the signals in the calling thread, and
// threads that start later inherit that. Ignores SIGPIPE: a lost peer is
// reported as an error instead.
class ShutdownSignals {
 public:
  ShutdownSignals();

  // Holds what SIGHUP reads again. Add to it before Wait.
  Reload& reload() { return reload_; }

  // Blocks until SIGTERM or SIGINT arrives and returns it. From then on a
  // second one ends the process at once, with status 128 + its number. Until
  // then each SIGHUP, also one that came before, runs reload(), and the log
  // says what became of it.
  int Wait();

  // As if SIGTERM had arrived. Any thread.
  void Raise();

 private:
  Reload reload_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_
