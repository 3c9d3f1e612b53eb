#include "coordinator/cli/interrupt_watcher.h"

#include <signal.h>
#include <unistd.h>

#include "common/base/notification.h"
#include "gtest/gtest.h"

namespace espalier::cli {
namespace {

TEST(InterruptWatcher, SignalRequestsAStop) {
  InterruptWatcher watcher;
  const std::stop_token token = watcher.token();
  EXPECT_FALSE(token.stop_requested());
  Notification stopped;
  std::stop_callback on_stop(token, [&] { stopped.Notify(); });
  kill(getpid(), SIGINT);
  stopped.Wait();
  EXPECT_TRUE(token.stop_requested());
}

TEST(InterruptWatcher, RenewedItTakesAnotherSignal) {
  InterruptWatcher watcher;
  for (int i = 0; i < 3; ++i) {
    const std::stop_token token = watcher.Renew();
    EXPECT_FALSE(token.stop_requested());
    Notification stopped;
    std::stop_callback on_stop(token, [&] { stopped.Notify(); });
    kill(getpid(), SIGINT);
    stopped.Wait();
  }
}

TEST(InterruptWatcher, EndsWithoutASignal) { InterruptWatcher watcher; }

TEST(InterruptWatcherDeathTest, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InterruptWatcher watcher;
        Notification stopped;
        std::stop_callback on_stop(watcher.token(), [&] { stopped.Notify(); });
        kill(getpid(), SIGINT);
        stopped.Wait();
        kill(getpid(), SIGINT);
        pause();
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace espalier::cli
