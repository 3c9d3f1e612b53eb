#include "coordinator/tenants/fair_queue.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

FairQueue::Place At(int64_t seconds, uint64_t ticket) {
  return {absl::FromUnixSeconds(seconds), ticket};
}

bool Any(uint64_t /*ticket*/) { return true; }

TEST(FairQueueTest, OneLineIsAQueue) {
  FairQueue queue;
  queue.Add("a", At(3, 1));
  queue.Add("a", At(1, 2));
  queue.Add("a", At(1, 3));
  EXPECT_EQ(queue.size(), 3);
  for (uint64_t ticket : {2, 3, 1}) {
    EXPECT_EQ(queue.Take(Any), ticket);
    queue.Charge("a", 1000);
  }
  EXPECT_EQ(queue.Take(Any), std::nullopt);
  EXPECT_EQ(queue.size(), 0);
}

TEST(FairQueueTest, TheTenantThatUsedTheLeastIsNext) {
  FairQueue queue;
  for (uint64_t i = 0; i < 10; ++i) queue.Add("first", At(0, i));
  queue.Add("second", At(100, 50));
  EXPECT_EQ(queue.Take(Any), 0u);
  queue.Charge("first", 10);
  EXPECT_EQ(queue.Take(Any), 50u) << "although nine came before it";
}

// Uses are divided by weights, so 3 to 1 is the ratio of what the two get.
TEST(FairQueueTest, SharesFollowTheCharges) {
  FairQueue queue;
  for (uint64_t i = 0; i < 1000; ++i) {
    queue.Add("heavy", At(0, i));
    queue.Add("light", At(0, 1000 + i));
  }
  std::map<std::string, int> taken;
  for (int i = 0; i < 400; ++i) {
    const std::string tenant = *queue.Take(Any) < 1000 ? "heavy" : "light";
    ++taken[tenant];
    queue.Charge(tenant, tenant == "heavy" ? 100.0 / 3 : 100.0);
  }
  EXPECT_NEAR(taken["heavy"], 300, 2);
}

TEST(FairQueueTest, AnIdleTenantSavesNoCredit) {
  FairQueue queue;
  for (uint64_t i = 0; i < 100; ++i) queue.Add("busy", At(0, i));
  for (int i = 0; i < 50; ++i) {
    queue.Take(Any);
    queue.Charge("busy", 1);
  }
  for (uint64_t i = 0; i < 50; ++i) queue.Add("late", At(9, 1000 + i));
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    const bool is_late = *queue.Take(Any) >= 1000;
    late += is_late;
    queue.Charge(is_late ? "late" : "busy", 1);
  }
  EXPECT_NEAR(late, 10, 1);
}

TEST(FairQueueTest, OnlyWhatIsReadyIsTaken) {
  FairQueue queue;
  queue.Add("a", At(0, 1));
  queue.Add("a", At(1, 2));
  queue.Add("b", At(2, 3));
  EXPECT_EQ(queue.Take([](uint64_t ticket) { return ticket == 2; }), 2u);
  EXPECT_EQ(queue.Take([](uint64_t ticket) { return ticket == 9; }),
            std::nullopt);
  queue.Remove("a", At(0, 1));
  EXPECT_EQ(queue.size("a"), 0);
  EXPECT_EQ(queue.size("b"), 1);
  EXPECT_EQ(queue.size("unknown"), 0);
  EXPECT_EQ(queue.Take(Any), 3u);
}

TEST(FairQueueTest, AChargeThatWasTooHighIsGivenBack) {
  FairQueue queue;
  for (uint64_t i = 0; i < 4; ++i) queue.Add("a", At(0, i));
  for (uint64_t i = 10; i < 14; ++i) queue.Add("b", At(0, i));
  EXPECT_EQ(queue.Take(Any), 0u);
  queue.Charge("a", 1000);
  EXPECT_EQ(queue.Take(Any), 10u);
  queue.Charge("b", 10);
  queue.Charge("a", -999);
  EXPECT_EQ(queue.Take(Any), 1u);
}

}  // namespace
}  // namespace espalier::coordinator
