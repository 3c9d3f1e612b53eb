#include "common/model/cuda/mailbox.h"

#include <numeric>
#include <vector>

#include "common/cuda/emulated_device.h"
#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

// The parameter: whether kernels carry the mail.
class MailboxTest : public ::testing::TestWithParam<bool> {
 protected:
  // Sends numbers, has the device move them, and receives them.
  std::vector<int32_t> Echo(int64_t count, int32_t first) {
    std::vector<int32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    EXPECT_TRUE(requests_.Clear().ok());
    EXPECT_TRUE(answers_.Clear().ok());
    const auto sent = requests_.Put(numbers);
    const auto room = answers_.Reserve<int32_t>(count);
    EXPECT_TRUE(sent.ok() && room.ok());
    requests_.Send();
    device_.Copy(room->there, *sent, count * 4);
    EXPECT_TRUE(answers_.Receive().ok());
    EXPECT_EQ(std::vector(room->here.begin(), room->here.end()), numbers);
    return {room->here.begin(), room->here.end()};
  }

  cuda::EmulatedDevice device_{{.seed = 1, .carries_mail = GetParam()}};
  Mailbox requests_{device_}, answers_{device_};
};
INSTANTIATE_TEST_SUITE_P(Ways, MailboxTest, ::testing::Bool());

// An answer of the round before would have its numbers.
TEST_P(MailboxTest, EachRoundGetsItsOwnAnswers) {
  for (int32_t round = 0; round < 20; ++round) {
    EXPECT_EQ(Echo(50 + round, 1000 * round)[7], 1000 * round + 7);
  }
}

TEST_P(MailboxTest, LargeAndSmallMailTakesTurns) {
  for (const int64_t count : {100, 200'000, 10, 16'384, 16'385, 1}) {
    EXPECT_EQ(std::ssize(Echo(count, 5)), count);
  }
}

// All that was queued is done, even if there is nothing to bring.
TEST_P(MailboxTest, ReceivesNothing) {
  EXPECT_TRUE(answers_.Receive().ok());
  const auto sent = requests_.Put(std::vector<int32_t>{1, 2, 3});
  ASSERT_TRUE(sent.ok());
  requests_.Send();
  EXPECT_TRUE(answers_.Receive().ok());
  EXPECT_EQ((*sent)[2], 3);  // the device's memory, emulated
}

// Sent twice without a word from the device: the second does not overwrite what
// the first has not brought yet.
TEST_P(MailboxTest, ClearWaitsForWhatIsSent) {
  auto kept = cuda::DeviceArray<int32_t>::Make(device_, 2);
  ASSERT_TRUE(kept.ok());
  for (int32_t round = 0; round < 2; ++round) {
    ASSERT_TRUE(requests_.Clear().ok());
    const auto sent = requests_.Put(std::vector<int32_t>{round});
    ASSERT_TRUE(sent.ok());
    requests_.Send();
    device_.Copy(kept->data() + round, *sent, 4);
  }
  ASSERT_TRUE(device_.Wait(device_.Record()).ok());
  EXPECT_EQ(kept->data()[0], 0);
  EXPECT_EQ(kept->data()[1], 1);
}

TEST(LostMailTest, TheDeviceIsUnavailable) {
  testing::WatchedDevice device;
  Mailbox answers(device);
  ASSERT_TRUE(answers.Reserve<int32_t>(100).ok());
  device.is_lost = true;
  EXPECT_EQ(answers.Receive().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace espalier
