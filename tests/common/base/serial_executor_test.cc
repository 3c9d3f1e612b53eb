#include "common/base/serial_executor.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;

constexpr IdleSpin::Limits kSleeps = {};
constexpr IdleSpin::Limits kSpinsForAMoment = {.length = absl::Microseconds(1)};
// From the first task on.
constexpr IdleSpin::Limits kNeverSleeps = {
    .length = absl::InfiniteDuration(),
    .longest_idle = absl::InfiniteDuration()};

class SerialExecutorTest : public ::testing::TestWithParam<IdleSpin::Limits> {};

INSTANTIATE_TEST_SUITE_P(Spins, SerialExecutorTest,
                         ::testing::Values(kSleeps, kSpinsForAMoment,
                                           kNeverSleeps));

TEST_P(SerialExecutorTest, RunsTasksInTheOrderPosted) {
  std::vector<int> ran;
  {
    SerialExecutor executor("test", GetParam());
    for (int i = 0; i < 1000; ++i) {
      executor.Post([&ran, i] { ran.push_back(i); });
    }
  }
  ASSERT_EQ(ran.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[i], i);
}

TEST_P(SerialExecutorTest, RunsDueTasksByTimeThenOrder) {
  std::vector<int> ran;
  Notification go;
  {
    SerialExecutor executor("test", GetParam());
    executor.Post([&go] { go.Wait(); });
    const absl::Time past = executor.Now() - absl::Seconds(10);
    executor.PostAt(past + absl::Seconds(2), [&ran] { ran.push_back(3); });
    executor.PostAt(past + absl::Seconds(1), [&ran] { ran.push_back(1); });
    executor.PostAt(past + absl::Seconds(1), [&ran] { ran.push_back(2); });
    executor.Post([&ran] { ran.push_back(0); });
    go.Notify();
  }
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
}

TEST_P(SerialExecutorTest, RunsADelayedTaskNotBeforeItsTime) {
  SerialExecutor executor("test", GetParam());
  Notification done;
  const absl::Time when = executor.Now() + absl::Milliseconds(20);
  absl::Time ran_at;
  executor.PostAt(when, [&] {
    ran_at = executor.Now();
    done.Notify();
  });
  done.Wait();
  EXPECT_GE(ran_at, when);
}

TEST_P(SerialExecutorTest, AnEarlierTaskOvertakesTheOneItSleepsFor) {
  SerialExecutor executor("test", GetParam());
  Notification done;
  executor.PostAt(executor.Now() + absl::Hours(1), [] { FAIL(); });
  executor.Post([&done] { done.Notify(); });
  done.Wait();
}

TEST_P(SerialExecutorTest, ACancelledTimerHoldsNothing) {
  SerialExecutor executor("test", GetParam());
  auto held = std::make_shared<int>(0);
  std::weak_ptr<int> dropped = held;
  const Executor::Timer timer = executor.PostAt(
      executor.Now() + absl::Hours(1), [held = std::move(held)] { FAIL(); });
  EXPECT_FALSE(dropped.expired());
  executor.Cancel(timer);
  EXPECT_TRUE(dropped.expired());
  executor.Cancel(timer);
}

TEST_P(SerialExecutorTest, DestructorRunsWhatIsDueAndDropsTheRest) {
  bool due_ran = false;
  auto held = std::make_shared<int>(0);
  std::weak_ptr<int> dropped = held;
  {
    SerialExecutor executor("test", GetParam());
    executor.PostAt(executor.Now() + absl::Hours(1),
                    [held = std::move(held)] { FAIL(); });
    executor.Post([&due_ran] { due_ran = true; });
  }
  EXPECT_TRUE(due_ran);
  EXPECT_TRUE(dropped.expired());
}

TEST_P(SerialExecutorTest, DestructorRunsWhatDueTasksPost) {
  int ran = 0;
  {
    SerialExecutor executor("test", GetParam());
    executor.Post([&] { executor.Post([&ran] { ++ran; }); });
  }
  EXPECT_EQ(ran, 1);
}

TEST_P(SerialExecutorTest, RunsAllTasksOnOneThreadOfItsOwn) {
  std::vector<std::thread::id> ids;
  {
    SerialExecutor executor("a name that is too long for a thread", GetParam());
    std::vector<std::thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int j = 0; j < 100; ++j) {
          executor.Post([&ids] { ids.push_back(std::this_thread::get_id()); });
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
  }
  ASSERT_EQ(ids.size(), 400u);
  for (std::thread::id id : ids) EXPECT_EQ(id, ids[0]);
  EXPECT_NE(ids[0], std::this_thread::get_id());
}

TEST_P(SerialExecutorTest, DestroysATaskAfterItRanAndBeforeTheNext) {
  auto held = std::make_shared<int>(0);
  std::weak_ptr<int> alive = held;
  bool gone_before_next = false;
  Notification posted;
  {
    SerialExecutor executor("test", GetParam());
    executor.Post([&posted] { posted.Wait(); });
    executor.Post([held = std::move(held)] {});
    executor.Post([&] { gone_before_next = alive.expired(); });
    posted.Notify();
  }
  EXPECT_TRUE(gone_before_next);
}

TEST_P(SerialExecutorTest, DispatchRunsOnTheCallersThreadWhereNothingIsDue) {
  SerialExecutor executor("test", GetParam());
  executor.PostAt(executor.Now() + absl::Hours(1), [] { FAIL(); });
  std::thread::id ran_on;
  executor.Dispatch([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_P(SerialExecutorTest, DispatchTakesItsTurnBehindWhatRunsAndIsDue) {
  std::vector<int> ran;
  Notification running, go;
  {
    SerialExecutor executor("test", GetParam());
    executor.Post([&] {
      running.Notify();
      go.Wait();
      executor.Dispatch([&ran] { ran.push_back(3); });
      ran.push_back(1);
    });
    running.Wait();
    executor.Dispatch([&ran] { ran.push_back(2); });
    go.Notify();
  }
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST_P(SerialExecutorTest, RunsOneTaskAtATimeOnAnyThread) {
  int count = 0;  // unguarded
  {
    SerialExecutor executor("test", GetParam());
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          executor.Dispatch([&count] { ++count; });
          executor.Post([&count] { ++count; });
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(count, 8000);
}

TEST_P(SerialExecutorTest, WhatADispatchedTaskPostsRunsAfterIt) {
  SerialExecutor executor("test", GetParam());
  Notification done;
  bool over = false;
  executor.Dispatch([&] {
    executor.Post([&] {
      EXPECT_TRUE(over);
      done.Notify();
    });
    over = true;
  });
  done.Wait();
}

TEST_P(SerialExecutorTest, WhatADispatchedTaskPostsRunsOnTheSameThread) {
  SerialExecutor executor("test", GetParam());
  std::vector<std::thread::id> ran_on;
  executor.Dispatch([&] {
    for (int i = 0; i < 3; ++i) {
      executor.Dispatch(
          [&ran_on] { ran_on.push_back(std::this_thread::get_id()); });
    }
  });
  EXPECT_EQ(ran_on, std::vector(3, std::this_thread::get_id()));
}

// The caller's thread has work of its own.
TEST_P(SerialExecutorTest, ADispatchThatPostsWithoutEndReturns) {
  std::atomic<bool> stop = false;
  std::function<void()> again;
  SerialExecutor executor("test", GetParam());
  again = [&] {
    if (!stop) executor.Post(again);
  };
  executor.Dispatch(again);
  stop = true;
}

TEST_P(SerialExecutorTest, DestructorWaitsForATaskOnAnotherThread) {
  Notification running, go;
  bool over = false;
  std::thread caller;
  {
    auto executor = std::make_unique<SerialExecutor>("test", GetParam());
    caller = std::thread([&, executor = executor.get()] {
      executor->Dispatch([&] {
        running.Notify();
        go.Wait();
        over = true;
      });
    });
    running.Wait();
    executor->Post([&] { EXPECT_TRUE(over); });
    go.Notify();
  }
  EXPECT_TRUE(over);
  caller.join();
}

// R: it runs or could; S: it sleeps.
char StateOf(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? '?' : stat[name_end + 2];
}

pid_t ThreadOf(SerialExecutor& executor) {
  pid_t thread = 0;
  Notification done;
  executor.Post([&] {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    done.Notify();
  });
  done.Wait();
  return thread;
}

// It has to run out of work first.
TEST(SerialExecutor, AThreadThatSpinsDoesNotSleep) {
  SerialExecutor executor("test", kNeverSleeps);
  bool spins = false;
  for (int attempt = 0; attempt < 100 && !spins; ++attempt) {
    const pid_t thread = ThreadOf(executor);
    int looks = 0;
    while (looks < 1000 && StateOf(thread) == 'R') ++looks;
    spins = looks == 1000;
  }
  EXPECT_TRUE(spins);
}

TEST(SerialExecutor, AThreadSleepsWhenItsSpinIsOver) {
  for (const IdleSpin::Limits& limits : {kSleeps, kSpinsForAMoment}) {
    SerialExecutor executor("test", limits);
    ThreadOf(executor);
    const pid_t thread = ThreadOf(executor);
    while (StateOf(thread) != 'S') {
    }
  }
}

}  // namespace
}  // namespace espalier
