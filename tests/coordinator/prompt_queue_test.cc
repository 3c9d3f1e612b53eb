#include "coordinator/prompt_queue.h"

#include <atomic>
#include <memory>

#include "common/base/notification.h"
#include "common/spec/request_errors.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kLong = 1 << 20;

TEST(PromptQueueTest, AShortPromptDoesNotWaitForALongOne) {
  PromptQueue queue({.max_bytes = 8 * kLong});
  Notification release;
  Notification short_is_done;
  Notification long_is_done;
  ASSERT_TRUE(queue.Post(kLong, [&] { release.Wait(); }).ok());
  ASSERT_TRUE(queue.Post(kLong, [&] { long_is_done.Notify(); }).ok());
  ASSERT_TRUE(queue.Post(10, [&] { short_is_done.Notify(); }).ok());
  short_is_done.Wait();  // hangs if it waits for the long one
  release.Notify();
  long_is_done.Wait();
}

TEST(PromptQueueTest, TakesNoMoreThanItsBytesAndGivesThemBack) {
  PromptQueue queue({.max_bytes = 3 * kLong});
  auto release = std::make_unique<Notification>();
  Notification done;
  ASSERT_TRUE(queue.Post(kLong, [&] { release->Wait(); }).ok());
  ASSERT_TRUE(queue.Post(2 * kLong, [&] { done.Notify(); }).ok());
  const absl::Status full = queue.Post(1, [] { FAIL() << "was refused"; });
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(RetryAfter(full).has_value());
  release->Notify();
  done.Wait();
  // Runs after all others on its thread, so their bytes are free.
  Notification last;
  while (!queue.Post(2 * kLong, [&] { last.Notify(); }).ok()) {
  }
  last.Wait();
}

TEST(PromptQueueTest, OneThatIsAloneFindsRoomWhateverItsSize) {
  PromptQueue queue({.max_bytes = 10});
  Notification done;
  ASSERT_TRUE(queue.Post(kLong, [&] { done.Notify(); }).ok());
  done.Wait();
}

TEST(PromptQueueTest, WhatWasTakenRunsBeforeTheQueueIsGone) {
  std::atomic<int> ran = 0;
  {
    PromptQueue queue({.max_bytes = 1 << 30});
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(queue.Post(i % 2 == 0 ? 1 : kLong, [&] { ++ran; }).ok());
    }
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace espalier::coordinator
