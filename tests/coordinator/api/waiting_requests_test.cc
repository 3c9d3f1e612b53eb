#include "coordinator/api/waiting_requests.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(WaitingRequestsTest, AnAbortedOneIsNotHandedOver) {
  WaitingRequests waiting;
  const auto aborted = waiting.Add("a", "t");
  const auto same_name = waiting.Add("a", "t");
  const auto other = waiting.Add("b", "u");
  EXPECT_EQ(waiting.SizeOf("t"), 2);
  EXPECT_EQ(waiting.SizeOf("u"), 1);
  EXPECT_TRUE(waiting.Abort("a"));
  EXPECT_TRUE(waiting.IsAborted(aborted));
  EXPECT_FALSE(waiting.IsAborted(other));
  bool handed_over = false;
  EXPECT_FALSE(waiting.Leave(aborted, [&] { handed_over = true; }));
  EXPECT_FALSE(waiting.Leave(same_name, [&] { handed_over = true; }));
  EXPECT_FALSE(handed_over);
  EXPECT_TRUE(waiting.Leave(other, [&] { handed_over = true; }));
  EXPECT_TRUE(handed_over);
  EXPECT_EQ(waiting.SizeOf("t"), 0);
  EXPECT_EQ(waiting.SizeOf("u"), 0);
}

TEST(WaitingRequestsTest, OneThatHasLeftIsNotFound) {
  WaitingRequests waiting;
  EXPECT_FALSE(waiting.Abort("a"));
  waiting.Leave(waiting.Add("a", "t"), [] {});
  EXPECT_FALSE(waiting.Abort("a"));
}

}  // namespace
}  // namespace espalier::coordinator
