// Mail by kernels: what the host sees when it sees the flag.
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class CudaMailTest : public DeviceTest {
 protected:
  // Returns memory of the host, which starts as `byte`.
  static DeviceArray<unsigned char> HostBytes(ComputeDevice& device,
                                              int64_t size, int byte) {
    auto array = DeviceArray<unsigned char>::Make(device, size, Memory::kHost);
    ESPALIER_CHECK(array.ok());
    std::memset(array->data(), byte, size);
    return *std::move(array);
  }
  static DeviceArray<uint32_t> NewFlag(ComputeDevice& device) {
    auto flag = DeviceArray<uint32_t>::Make(device, 1, Memory::kHost);
    ESPALIER_CHECK(flag.ok());
    *flag->data() = 0;
    return *std::move(flag);
  }
  static std::vector<unsigned char> BytesOf(
      const DeviceArray<unsigned char>& array, int64_t size) {
    return {array.data(), array.data() + size};
  }
};
INSTANTIATE_FOR_DEVICES(CudaMailTest);

constexpr int64_t kSizes[] = {16, 16 * 1024, 16 * 1024 + 16, 50000,
                              kMaxMailBytes};

// A kernel writes, mail brings it, and the host looks when it sees the flag.
TEST_P(CudaMailTest, AnswersAreThereWhenTheFlagIs) {
  constexpr int kInputs = 512, kOutputs = 64;  // 64 KiB
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ComputeDevice& device = Device(seed);
    const auto written = NanArray<unsigned char>(device, kMaxMailBytes);
    const auto flag = NewFlag(device);
    const auto here = HostBytes(device, kMaxMailBytes, 0xff);
    uint32_t number = 0;
    for (const int64_t size : kSizes) {
      device.Launch(RandomWeightsArgs{.seed = seed + number,
                                      .scale = 0x1p-4f,
                                      .rows = kOutputs,
                                      .outputs = kOutputs,
                                      .inputs = kInputs,
                                      .out = written.data()});
      ++number;
      device.Launch(MailArgs{.to = here.data(),
                             .from = written.data(),
                             .bytes = size,
                             .flag = flag.data(),
                             .number = number});
      const int64_t event = device.Record();
      ASSERT_TRUE(device.WaitForFlag(flag.data(), number, event).ok());
      const auto seen = BytesOf(here, size);
      std::vector<unsigned char> wanted = ValuesOf(device, written);
      wanted.resize(seen.size());
      ASSERT_TRUE(SameBits(seen, wanted)) << "seed " << seed << ", " << size;
    }
  }
}

TEST_P(CudaMailTest, KernelsReadWhatTheHostWrote) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ComputeDevice& device = Device(seed);
    for (const int64_t size : kSizes) {
      const auto here = HostBytes(device, size, static_cast<int>(seed));
      const auto there = NanArray<unsigned char>(device, size);
      const auto read = NanArray<unsigned char>(device, size);
      device.Launch(
          MailArgs{.to = there.data(), .from = here.data(), .bytes = size});
      device.Launch(
          MailArgs{.to = read.data(), .from = there.data(), .bytes = size});
      EXPECT_TRUE(SameBits(ValuesOf(device, read), BytesOf(here, size)));
    }
  }
}

// What is beside the mail stays as it is.
TEST_P(CudaMailTest, NothingElseIsWritten) {
  ComputeDevice& device = Device();
  const auto here = HostBytes(device, 64, 7);
  const auto there = NanArray<unsigned char>(device, 64);
  device.Launch(MailArgs{.to = there.data(), .from = here.data(), .bytes = 32});
  std::vector<unsigned char> wanted(64, 0xff);
  std::fill_n(wanted.begin(), 32, 7);
  EXPECT_TRUE(SameBits(ValuesOf(device, there), wanted));
}

TEST_P(CudaMailTest, AFlagThatNobodyRaisesEndsInTheWait) {
  ComputeDevice& device = Device();
  const auto flag = NewFlag(device);
  const auto here = HostBytes(device, 16, 3);
  const auto there = NanArray<unsigned char>(device, 16);
  device.Launch(MailArgs{.to = there.data(), .from = here.data(), .bytes = 16});
  EXPECT_TRUE(device.WaitForFlag(flag.data(), 1, device.Record()).ok());
  EXPECT_EQ(*flag.data(), 0u);
  EXPECT_TRUE(SameBits(ValuesOf(device, there), BytesOf(here, 16)));
}

}  // namespace
}  // namespace espalier::cuda
