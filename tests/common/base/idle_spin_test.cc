#include "common/base/idle_spin.h"

#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr absl::Duration kLength = absl::Microseconds(200);
constexpr absl::Duration kLongestIdle = absl::Milliseconds(10);

class IdleSpinTest : public ::testing::Test {
 protected:
  // Returns the length of the spin before the thread is idle for so long.
  absl::Duration SpinBefore(absl::Duration idle) {
    const absl::Duration spin = spin_.Begin(now_) - now_;
    now_ += idle;
    spin_.End(now_);
    now_ += absl::Seconds(1);  // works
    return spin;
  }

  IdleSpin spin_{{.length = kLength, .longest_idle = kLongestIdle}};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(IdleSpinTest, BeforeTheFirstWorkItSleeps) {
  EXPECT_EQ(SpinBefore(absl::Hours(1)), absl::ZeroDuration());
}

TEST_F(IdleSpinTest, ItSpinsAfterWorkThatCameSoon) {
  SpinBefore(kLongestIdle);
  EXPECT_EQ(SpinBefore(absl::Hours(1)), kLength);
}

TEST_F(IdleSpinTest, ItSleepsAfterWorkThatCameLate) {
  SpinBefore(kLongestIdle + absl::Nanoseconds(1));
  EXPECT_EQ(SpinBefore(absl::ZeroDuration()), absl::ZeroDuration());
}

TEST_F(IdleSpinTest, ItSpinsAgainOnceWorkComesSoonAgain) {
  SpinBefore(absl::ZeroDuration());
  EXPECT_EQ(SpinBefore(absl::Hours(1)), kLength);
  EXPECT_EQ(SpinBefore(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(SpinBefore(absl::ZeroDuration()), kLength);
}

TEST_F(IdleSpinTest, TheTimeOfTheWorkItselfDoesNotCount) {
  for (int i = 0; i < 3; ++i) SpinBefore(kLongestIdle);  // each works a second
  EXPECT_EQ(SpinBefore(absl::ZeroDuration()), kLength);
}

TEST(IdleSpin, EnginesSpinForAMomentBesideAGpuOnly) {
  for (const char* gpu : {"cuda", "cuda:3"}) {
    const absl::Duration spin = SpinBeside(gpu).length;
    EXPECT_GE(spin, absl::Microseconds(50)) << gpu;
    EXPECT_LE(spin, absl::Microseconds(200)) << gpu;
  }
  for (const char* other : {"", "cpu", "emulated"}) {
    EXPECT_EQ(SpinBeside(other).length, absl::ZeroDuration()) << other;
  }
}

TEST(IdleSpin, NoneByDefault) {
  IdleSpin spin({});
  const absl::Time now = absl::UnixEpoch();
  spin.Begin(now);
  spin.End(now);
  EXPECT_EQ(spin.Begin(now), now);
}

}  // namespace
}  // namespace espalier
