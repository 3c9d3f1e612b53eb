#include "coordinator/api/prompt_queue.h"

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/notification.h"
#include "common/speculation/request_errors.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kLong = 1 << 20;

PromptQueue::Prompt Text(int64_t bytes) {
  return {.bytes = bytes, .work = bytes};
}

TEST(PromptQueueTest, AShortPromptDoesNotWaitForALongOne) {
  PromptQueue queue({.max_bytes = 8 * kLong});
  Notification release;
  Notification short_is_done;
  Notification long_is_done;
  ASSERT_TRUE(queue.Post(Text(kLong), [&] { release.Wait(); }).ok());
  ASSERT_TRUE(queue.Post(Text(kLong), [&] { long_is_done.Notify(); }).ok());
  ASSERT_TRUE(queue.Post(Text(10), [&] { short_is_done.Notify(); }).ok());
  short_is_done.Wait();  // hangs if it waits for the long one
  release.Notify();
  long_is_done.Wait();
}

TEST(PromptQueueTest, ATextDoesNotWaitForChats) {
  Notification release;
  Notification done;
  PromptQueue queue({.max_bytes = 8 * kLong});  // ends before what it uses
  for (int64_t work : {int64_t{1}, kLong}) {
    ASSERT_TRUE(queue
                    .Post({.bytes = 1, .work = work, .is_chat = true},
                          [&] { release.Wait(); })
                    .ok());
  }
  ASSERT_TRUE(queue.Post(Text(10), [&] { done.Notify(); }).ok());
  done.Wait();  // hangs if it waits for a chat
  release.Notify();
}

TEST(PromptQueueTest, ManyExpensiveChatsDoNotHoldUpACheaperOne) {
  Notification started;
  Notification release;
  Notification done;
  std::vector<int64_t> order;  // works, written by one thread
  PromptQueue queue({.max_bytes = 1 << 30});
  const auto post = [&](int64_t work) {
    ASSERT_TRUE(queue
                    .Post({.bytes = 1, .work = work, .is_chat = true},
                          [&, work] {
                            order.push_back(work);
                            if (order.size() == 1) {
                              started.Notify();
                              release.Wait();
                            }
                            if (order.size() == 5) done.Notify();
                          })
                    .ok());
  };
  const int64_t expensive = 1000 * kLong;
  post(expensive);
  started.Wait();
  for (int i = 0; i < 3; ++i) post(expensive);
  post(kLong);  // came last, and waits for the one in work alone
  release.Notify();
  done.Wait();
  EXPECT_EQ(order[1], kLong);
}

TEST(PromptQueueTest, TakesNoMoreThanItsBytesAndGivesThemBack) {
  PromptQueue queue({.max_bytes = 3 * kLong});
  auto release = std::make_unique<Notification>();
  Notification done;
  ASSERT_TRUE(queue.Post(Text(kLong), [&] { release->Wait(); }).ok());
  ASSERT_TRUE(queue.Post(Text(2 * kLong), [&] { done.Notify(); }).ok());
  const absl::Status full =
      queue.Post(Text(1), [] { FAIL() << "was refused"; });
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(RetryAfter(full).has_value());
  release->Notify();
  done.Wait();
  // Runs after all others on its thread, so their bytes are free.
  Notification last;
  while (!queue.Post(Text(2 * kLong), [&] { last.Notify(); }).ok()) {
  }
  last.Wait();
}

TEST(PromptQueueTest, OneThatIsAloneFindsRoomWhateverItsSize) {
  PromptQueue queue({.max_bytes = 10});
  Notification done;
  ASSERT_TRUE(queue.Post(Text(kLong), [&] { done.Notify(); }).ok());
  done.Wait();
}

TEST(PromptQueueTest, WhatWasTakenRunsBeforeTheQueueIsGone) {
  std::atomic<int> ran = 0;
  {
    PromptQueue queue({.max_bytes = 1 << 30});
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(
          queue.Post(Text(i % 2 == 0 ? 1 : kLong), [&] { ++ran; }).ok());
    }
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace espalier::coordinator
