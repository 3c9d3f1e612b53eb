#include "common/model/cuda/launch_graphs.h"

#include <vector>

#include "common/cuda/device_array.h"
#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

class LaunchGraphsTest : public ::testing::Test {
 protected:
  static constexpr int kColumns = 64, kSlots = 8;

  LaunchGraphsTest() {
    auto memory = cuda::DeviceArray<float>::Make(device_, kSlots * kColumns);
    memory_ = *std::move(memory);
  }

  // Copies one slot to another.
  cuda::KernelArgs Move(int from, int to) {
    return cuda::TakeRowsArgs{.from = memory_.data() + from * kColumns,
                              .rows = 1,
                              .columns = kColumns,
                              .sums = memory_.data() + to * kColumns};
  }
  struct Counts {
    int launches = 0, captures = 0, replays = 0;
    bool operator==(const Counts&) const = default;
  };
  static constexpr Counts kLaunched = {2, 0, 0}, kCaptured = {0, 1, 1},
                          kReplayed = {0, 0, 1};

  // Runs a pass of two kernels, which brings a number through `by` to a last
  // slot: what the device was asked.
  Counts Pass(LaunchGraphs& graphs, int by) {
    device_.launches = device_.captures = device_.replays = 0;
    const std::vector<float> in(kColumns, ++number_);
    memory_.Write(0, in);
    graphs.Launch(Move(0, by));
    graphs.Launch(Move(by, kSlots - 1));
    EXPECT_EQ(device_.launches + device_.replays, 0);
    graphs.Flush();
    std::vector<float> out(kColumns);
    memory_.Read((kSlots - 1) * kColumns, absl::MakeSpan(out));
    EXPECT_TRUE(device_.Wait(device_.Record()).ok());
    EXPECT_EQ(out, in);
    return {device_.launches, device_.captures, device_.replays};
  }

  testing::WatchedDevice device_;
  cuda::DeviceArray<float> memory_;
  float number_ = 0;
};

TEST_F(LaunchGraphsTest, KernelsThatComeAgainAreReplayed) {
  LaunchGraphs graphs(device_);
  EXPECT_EQ(Pass(graphs, 1), kLaunched);
  EXPECT_EQ(Pass(graphs, 2), kLaunched);
  EXPECT_EQ(Pass(graphs, 1), kCaptured);
  EXPECT_EQ(Pass(graphs, 1), kReplayed);
  EXPECT_EQ(Pass(graphs, 2), kCaptured);
  EXPECT_EQ(Pass(graphs, 1), kReplayed);
  EXPECT_EQ(Pass(graphs, 2), kReplayed);
  EXPECT_EQ(Pass(graphs, 3), kLaunched);
}

TEST_F(LaunchGraphsTest, APassIsNoOtherThatBeginsOrGoesOnAlike) {
  LaunchGraphs graphs(device_);
  for (int i = 0; i < 2; ++i) Pass(graphs, 1);
  device_.launches = device_.replays = 0;
  graphs.Launch(Move(0, 1));
  graphs.Flush();
  graphs.Launch(Move(0, 1));
  graphs.Launch(Move(1, kSlots - 1));
  graphs.Launch(Move(1, 2));
  graphs.Flush();
  EXPECT_EQ(device_.launches, 4);
  EXPECT_EQ(device_.replays, 0);
  ASSERT_TRUE(device_.Wait(device_.Record()).ok());
}

TEST_F(LaunchGraphsTest, ForgetsThePassThatWasNotUsedForLongest) {
  LaunchGraphs graphs(device_, /*most_graphs=*/2);
  for (int i = 0; i < 2; ++i) Pass(graphs, 1);
  for (int i = 0; i < 2; ++i) Pass(graphs, 2);
  EXPECT_EQ(Pass(graphs, 1), kReplayed);
  EXPECT_EQ(Pass(graphs, 3), kLaunched);  // for 2
  EXPECT_EQ(Pass(graphs, 1), kReplayed);
  EXPECT_EQ(Pass(graphs, 2), kLaunched);  // for 3
  EXPECT_EQ(Pass(graphs, 1), kReplayed);
  EXPECT_EQ(Pass(graphs, 2), kCaptured);
}

TEST_F(LaunchGraphsTest, LaunchesWhatMakesNoGraph) {
  LaunchGraphs graphs(device_);
  device_.makes_graphs = false;
  EXPECT_EQ(Pass(graphs, 1), kLaunched);
  EXPECT_EQ(Pass(graphs, 1), (Counts{2, 1, 0}));
  // It is not tried for every pass.
  EXPECT_EQ(Pass(graphs, 1), kLaunched);
  device_.makes_graphs = true;
  EXPECT_EQ(Pass(graphs, 1), kLaunched);
  Pass(graphs, 2);
  EXPECT_EQ(Pass(graphs, 2), kCaptured);
}

}  // namespace
}  // namespace espalier
