#include "common/model/cuda/open_device.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(OpenDevice, EnginesSpinForAMomentBesideAGpuOnly) {
  for (const char* gpu : {"cuda", "cuda:3"}) {
    const absl::Duration spin = SpinBeside(gpu).length;
    EXPECT_GE(spin, absl::Microseconds(50)) << gpu;
    EXPECT_LE(spin, absl::Microseconds(200)) << gpu;
  }
  for (const char* other : {"", "cpu", "emulated", "tpu"}) {
    EXPECT_EQ(SpinBeside(other).length, absl::ZeroDuration()) << other;
  }
}

}  // namespace
}  // namespace espalier
