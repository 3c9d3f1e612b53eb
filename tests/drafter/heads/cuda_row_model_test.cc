// A draft network on a device that has no room, or is lost.
#include <unistd.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "drafter/eagle/cuda_eagle_model.h"
#include "drafter/eagle/cuda_eagle_weights.h"
#include "gtest/gtest.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/watched_device.h"

namespace espalier::drafter {
namespace {

using testing::WatchedDevice;

class CudaRowModelTest : public ::testing::Test {
 protected:
  CudaRowModelTest() {
    const std::string folder =
        ::testing::TempDir() + "cuda_row_model_" + std::to_string(getpid());
    testing::WriteWideLlama(folder + "/target");
    testing::WriteWideEagle(testing::EagleLayouts().back(), folder + "/head");
    auto target = OpenHeadTarget({.target_folder = folder + "/target"});
    EXPECT_TRUE(target.ok()) << target.status();
    const std::map<std::string, std::string> options = {{"device", "emulated"}};
    OptionReader reader("eagle", options);
    auto head = LoadCudaEagle(folder + "/head", *target,
                              ReadHeadRuntime(reader), device_);
    EXPECT_TRUE(head.ok()) << head.status();
    model_ = std::make_unique<CudaEagleModel>(*std::move(head));
    sequence_ = model_->NewSequence();
  }

  // Appends rows of so many positions with their states.
  absl::Status Append(int64_t count) {
    const int64_t first = model_->Length(sequence_);
    const FeatureContract contract = model_->features()->contract();
    model_->features()->Cut({1, 1}, {});
    model_->features()->Append(
        {1, 1}, first, std::vector<uint16_t>(count * contract.width(), 0x3f80));
    const absl::Status room = model_->Reserve(sequence_, first + count);
    if (!room.ok()) return room;
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(first));
    return model_->Append(sequence_, tokens, {.id = {1, 1}, .position = first});
  }
  absl::StatusOr<std::vector<std::vector<Candidate>>> Rank() {
    return model_->Rank({{.sequence = sequence_,
                          .row = kPrefixParent,
                          .position = model_->Length(sequence_) + 1}},
                        5);
  }

  const std::shared_ptr<WatchedDevice> device_ =
      std::make_shared<WatchedDevice>();
  std::unique_ptr<CudaEagleModel> model_;
  RowModel::Sequence sequence_ = 0;
};

TEST_F(CudaRowModelTest, GoesOnAfterItFoundNoRoom) {
  ASSERT_TRUE(Append(3).ok());
  const auto before = Rank();
  ASSERT_TRUE(before.ok()) << before.status();
  device_->is_full = true;
  // Larger than what the first pass has left.
  EXPECT_EQ(Append(200).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(model_->Length(sequence_), 3);
  device_->is_full = false;
  const auto after = Rank();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*before, *after);
  EXPECT_TRUE(Append(200).ok());
  EXPECT_TRUE(Rank().ok());
}

TEST_F(CudaRowModelTest, ALostDeviceIsUnavailable) {
  ASSERT_TRUE(Append(3).ok());
  device_->is_lost = true;
  EXPECT_EQ(Rank().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CudaRowModelTest, NoRowIsBeyondTheLastPosition) {
  EXPECT_TRUE(model_->Reserve(sequence_, testing::kTinyMaxPositions).ok());
  EXPECT_EQ(model_->Reserve(sequence_, testing::kTinyMaxPositions + 1).code(),
            absl::StatusCode::kResourceExhausted);
}

// A pass is queued, a ranking waits once, and what goes to the device and what
// comes back goes in one copy each.
TEST_F(CudaRowModelTest, ARankingWaitsOnce) {
  ASSERT_TRUE(Append(3).ok());
  ASSERT_TRUE(Rank().ok());
  ASSERT_TRUE(Append(1).ok());
  device_->waits = device_->copies = 0;
  ASSERT_TRUE(Rank().ok());
  EXPECT_LE(device_->waits, 2);  // and for the copy of what was appended
  EXPECT_EQ(device_->copies, 2);
}

}  // namespace
}  // namespace espalier::drafter
