#include "common/cuda/resident_turn.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::cuda {
namespace {

class Queue final : public ResidentTurn::Member {
 public:
  Queue(std::string name, std::vector<std::string>& log)
      : name_(std::move(name)), log_(log) {}

  void WaitFor(Member& other) override {
    log_.push_back(name_ + " waits for " + static_cast<Queue&>(other).name_);
  }
  void Run(ResidentTurn& turn) {
    turn.Take(*this, [this] { log_.push_back(name_); });
  }

 private:
  const std::string name_;
  std::vector<std::string>& log_;
};

using Log = std::vector<std::string>;

TEST(ResidentTurnTest, QueuesWaitForTheLastOfAnother) {
  ResidentTurn turn;
  Log log;
  Queue verifier("v", log), drafter("d", log);
  verifier.Run(turn);
  verifier.Run(turn);
  drafter.Run(turn);
  verifier.Run(turn);
  EXPECT_EQ(log, Log({"v", "v", "d waits for v", "d", "v waits for d", "v"}));
}

TEST(ResidentTurnTest, NobodyWaitsForAQueueThatLeft) {
  ResidentTurn turn;
  Log log;
  Queue verifier("v", log), drafter("d", log);
  drafter.Run(turn);
  turn.Leave(drafter);
  verifier.Run(turn);
  turn.Leave(drafter);  // another one than the last
  drafter.Run(turn);
  EXPECT_EQ(log, Log({"d", "v", "d waits for v", "d"}));
}

// Two threads: between a wait and its kernels comes nothing of the other.
TEST(ResidentTurnTest, ATurnIsWhole) {
  ResidentTurn turn;
  Log log;
  Queue verifier("v", log), drafter("d", log);
  const auto run = [&turn](Queue& queue) {
    for (int i = 0; i < 1000; ++i) {
      queue.Run(turn);
      turn.Hold([] {});
    }
  };
  std::thread other(run, std::ref(drafter));
  run(verifier);
  other.join();
  std::string last;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i].size() > 1) {
      ASSERT_EQ(log[i], log[i + 1] + " waits for " + last);
      continue;
    }
    const bool waited = i > 0 && log[i - 1].size() > 1;
    ASSERT_EQ(waited, !last.empty() && last != log[i]) << i;
    last = log[i];
  }
}

}  // namespace
}  // namespace espalier::cuda
