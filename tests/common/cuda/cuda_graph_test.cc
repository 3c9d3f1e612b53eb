// Graphs of kernels against launches of them.
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class GraphTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(GraphTest);

constexpr int kColumns = 64;

// `to` = the sum of `from` and of the parts, which are as many numbers.
KernelArgs Sum(const DeviceArray<float>& from, const DeviceArray<float>& parts,
               const DeviceArray<float>& to) {
  return TakeRowsArgs{.from = from.data(),
                      .parts = {.values = parts.data(),
                                .splits = 1,
                                .padded_rows = PaddedRows(1),
                                .outputs = kColumns},
                      .rows = 1,
                      .columns = kColumns,
                      .sums = to.data()};
}

// Each kernel reads what the one before wrote.
TEST_P(GraphTest, ReplaysItsKernelsInTheirOrderOnWhatMemoryHolds) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    ComputeDevice& device = Device(seed);
    const std::vector<float> ones(kColumns * PaddedRows(1), 1),
        tens(kColumns, 10);
    auto from = ArrayOf(device, ones);
    const auto parts = ArrayOf(device, ones);
    const auto middle = NanArray<float>(device, kColumns);
    const auto to = NanArray<float>(device, kColumns);
    const std::vector<KernelArgs> kernels = {Sum(from, parts, middle),
                                             Sum(middle, parts, to),
                                             Sum(to, parts, middle)};
    for (const KernelArgs& args : kernels) device.Launch(args);
    EXPECT_EQ(ValuesOf(device, middle)[0], 4);
    const auto graph = device.Capture(kernels);
    ASSERT_TRUE(graph.ok()) << graph.status();
    from.Write(0, tens);
    EXPECT_EQ(ValuesOf(device, middle), std::vector<float>(kColumns, 4));
    (*graph)->Replay();
    EXPECT_EQ(ValuesOf(device, middle), std::vector<float>(kColumns, 13));
    // Between launches, and twice in the queue.
    device.Launch(Sum(middle, parts, from));
    (*graph)->Replay();
    device.Launch(Sum(middle, parts, from));
    (*graph)->Replay();
    device.Launch(Sum(middle, parts, from));
    EXPECT_EQ(ValuesOf(device, from)[kColumns - 1], 22);
  }
}

TEST_P(GraphTest, WhatIsQueuedOfAGraphOutlivesIt) {
  ComputeDevice& device = Device();
  const auto ones =
      ArrayOf(device, std::vector<float>(kColumns * PaddedRows(1), 1));
  const auto to = NanArray<float>(device, kColumns);
  device.Launch(Sum(ones, ones, to));
  {
    const auto graph = device.Capture({Sum(to, ones, to)});
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (int i = 0; i < 100; ++i) (*graph)->Replay();
  }
  EXPECT_EQ(ValuesOf(device, to), std::vector<float>(kColumns, 102));
}

TEST(GraphDeathTest, NoGraphOutlivesItsDevice) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(
      {
        std::unique_ptr<KernelGraph> graph;
        EmulatedDevice device({});
        graph = *device.Capture({});
      },
      "graphs_ == 0");
}

}  // namespace
}  // namespace espalier::cuda
