#include "common/rpc/shutdown_signals.h"

#include <signal.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace espalier {
namespace {

// Death tests start the program anew, because other tests leave gRPC's threads
// running.
class ShutdownSignalsTest : public testing::Test {
 protected:
  ShutdownSignalsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ShutdownSignalsTest, ReturnsTheSignalAndIgnoresSigpipe) {
  EXPECT_EXIT(
      {
        ShutdownSignals signals;
        raise(SIGPIPE);
        raise(SIGTERM);
        _exit(signals.Wait() == SIGTERM ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ShutdownSignalsTest, HangUpReadsAgainAndEndsNothing) {
  EXPECT_EXIT(
      {
        ShutdownSignals signals;
        raise(SIGHUP);  // before anything can be read
        int reads = 0;
        signals.reload().Add([&]() -> absl::StatusOr<Reload::Install> {
          ++reads;
          if (reads == 2) {
            raise(SIGTERM);
            return absl::InvalidArgumentError("file:3");
          }
          return [] { raise(SIGHUP); };
        });
        const int ended_by = signals.Wait();
        raise(SIGHUP);  // ignored while the process ends
        _exit(ended_by == SIGTERM && reads == 2 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "everything stays as it was: file:3");
}

TEST_F(ShutdownSignalsTest, SecondSignalEndsTheProcess) {
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
