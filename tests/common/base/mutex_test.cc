#include "common/base/mutex.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(Mutex, OneHolderAtATime) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(Mutex, AnUnlockWakesWhoWaitsForItsChange) {
  Mutex mutex;
  int turn = 0;
  std::vector<std::thread> threads;
  // Each thread waits for the one before it; the last one starts first.
  for (int t = 4; t > 0; --t) {
    threads.emplace_back([&, t] {
      MutexLock lock(&mutex);
      mutex.Await([&] { return turn == t; });
      ++turn;
    });
  }
  mutex.Lock();
  turn = 1;
  mutex.Unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turn, 5);
}

TEST(Mutex, AnUnlockThatChangesNothingWakesNobody) {
  Mutex mutex;
  bool waiting = false;
  int turns = 0;
  int looks = 0;  // evaluations by the waiting thread
  std::thread waiter([&] {
    const auto self = std::this_thread::get_id();
    MutexLock lock(&mutex);
    waiting = true;
    mutex.Await([&] {
      if (std::this_thread::get_id() == self) ++looks;
      return turns == 1000;
    });
  });
  for (bool over = false; !over;) {
    MutexLock lock(&mutex);
    if (waiting) over = ++turns == 1000;
  }
  waiter.join();
  EXPECT_LT(looks, 10);
}

// The thread that waits last has made the change that the other waits for.
TEST(Mutex, WaitingWakesOthersAsUnlockingDoes) {
  Mutex mutex;
  bool ping = false;
  bool pong = false;
  std::thread other([&] {
    MutexLock lock(&mutex);
    mutex.Await([&] { return ping; });
    pong = true;
  });
  {
    MutexLock lock(&mutex);
    ping = true;
    mutex.Await([&] { return pong; });
  }
  other.join();
}

TEST(Mutex, ADeadlineEndsTheWait) {
  Mutex mutex;
  MutexLock lock(&mutex);
  auto never = [] { return false; };
  EXPECT_FALSE(mutex.AwaitUntil(never, absl::InfinitePast()));
  const absl::Time deadline = absl::Now() + absl::Milliseconds(5);
  EXPECT_FALSE(mutex.AwaitUntil(never, deadline));
  EXPECT_GE(absl::Now(), deadline - absl::Milliseconds(1));
}

TEST(Mutex, AConditionThatHoldsNeedsNoWait) {
  Mutex mutex;
  MutexLock lock(&mutex);
  EXPECT_TRUE(mutex.AwaitUntil([] { return true; }, absl::InfinitePast()));
}

TEST(Mutex, TheLastToLockMayDestroyIt) {
  for (int i = 0; i < 100; ++i) {
    auto mutex = std::make_unique<Mutex>();
    bool done = false;
    std::thread other([&done, mutex = mutex.get()] {
      MutexLock lock(mutex);
      done = true;
    });
    mutex->Lock();
    mutex->Await([&] { return done; });
    mutex->Unlock();
    mutex.reset();
    other.join();
  }
}

}  // namespace
}  // namespace espalier
