#ifndef ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_
#define ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_

namespace espalier {

// Lets a thread wait for SIGTERM and SIGINT. Create it first in main: it blocks
// the signals in the calling thread, and threads that start later inherit that.
// Ignores SIGPIPE: a lost peer is reported as an error instead.
class ShutdownSignals {
 public:
  ShutdownSignals();

  // Blocks until a signal arrives and returns it. From then on a second one
  // ends the process at once, with status 128 + its number.
  int Wait();

  // As if SIGTERM had arrived. Any thread.
  void Raise();
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SHUTDOWN_SIGNALS_H_
