#include "coordinator/api/waiting_requests.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

WaitingRequests::Entry Add(WaitingRequests& waiting, const std::string& id,
                           const std::string& tenant) {
  return *waiting.Add(id, tenant, [](int64_t) { return absl::OkStatus(); });
}

// Asks by a request that is refused.
int64_t SizeOf(WaitingRequests& waiting, const std::string& tenant) {
  int64_t size = -1;
  const auto refused = waiting.Add("refused", tenant, [&](int64_t num_waiting) {
    size = num_waiting;
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ(refused.status(), absl::ResourceExhaustedError("full"));
  return size;
}

TEST(WaitingRequestsTest, AnAbortedOneIsNotHandedOver) {
  WaitingRequests waiting;
  const auto aborted = Add(waiting, "a", "t");
  const auto same_name = Add(waiting, "a", "t");
  const auto other = Add(waiting, "b", "u");
  EXPECT_EQ(SizeOf(waiting, "t"), 2);
  EXPECT_EQ(SizeOf(waiting, "u"), 1);
  EXPECT_TRUE(waiting.Abort("a"));
  EXPECT_TRUE(waiting.IsAborted(aborted));
  EXPECT_FALSE(waiting.IsAborted(other));
  bool handed_over = false;
  EXPECT_FALSE(waiting.Leave(aborted, [&] { handed_over = true; }));
  EXPECT_FALSE(waiting.Leave(same_name, [&] { handed_over = true; }));
  EXPECT_FALSE(handed_over);
  EXPECT_TRUE(waiting.Leave(other, [&] { handed_over = true; }));
  EXPECT_TRUE(handed_over);
  EXPECT_EQ(SizeOf(waiting, "t"), 0);
  EXPECT_EQ(SizeOf(waiting, "u"), 0);
}

TEST(WaitingRequestsTest, OneThatHasLeftIsNotFound) {
  WaitingRequests waiting;
  EXPECT_FALSE(waiting.Abort("a"));
  waiting.Leave(Add(waiting, "a", "t"), [] {});
  EXPECT_FALSE(waiting.Abort("a"));
}

// Otherwise both would take the last place.
TEST(WaitingRequestsTest, OfTwoAtATimeOneGetsTheLastPlace) {
  for (int i = 0; i < 100; ++i) {
    WaitingRequests waiting;
    std::atomic<int> refused = 0;
    const auto add = [&] {
      const auto added = waiting.Add("a", "t", [](int64_t num_waiting) {
        return num_waiting < 1 ? absl::OkStatus()
                               : absl::ResourceExhaustedError("full");
      });
      if (!added.ok()) ++refused;
    };
    std::thread first(add);
    add();
    first.join();
    EXPECT_EQ(refused, 1);
  }
}

}  // namespace
}  // namespace espalier::coordinator
