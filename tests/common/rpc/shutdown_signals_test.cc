#include "common/rpc/shutdown_signals.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(ShutdownSignals, ReturnsTheSignalAndIgnoresSigpipe) {
  EXPECT_EXIT(
      {
        ShutdownSignals signals;
        raise(SIGPIPE);
        raise(SIGTERM);
        _exit(signals.Wait() == SIGTERM ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(ShutdownSignals, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        ShutdownSignals signals;
        raise(SIGTERM);
        signals.Wait();
        kill(getpid(), SIGINT);
        while (true) pause();
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace espalier
