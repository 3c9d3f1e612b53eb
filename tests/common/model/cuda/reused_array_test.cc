#include "common/model/cuda/reused_array.h"

#include <memory>
#include <optional>

#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

class ReusedArrayTest : public ::testing::Test {
 protected:
  ReusedArray<float>::Held Take(int64_t size) {
    auto held = reused_->Take(size);
    EXPECT_TRUE(held.ok()) << held.status();
    EXPECT_GE((*held)->size(), size);
    return *std::move(held);
  }

  const std::shared_ptr<testing::WatchedDevice> device_ =
      std::make_shared<testing::WatchedDevice>();
  std::optional<ReusedArray<float>> reused_{device_};
};

TEST_F(ReusedArrayTest, LiesWhereTheLastOneLay) {
  const float* const place = Take(100)->data();
  device_->allocations = 0;
  for (const int64_t size : {100, 1, 60}) {
    EXPECT_EQ(Take(size)->data(), place) << size;
  }
  EXPECT_EQ(device_->allocations, 0);
}

TEST_F(ReusedArrayTest, IsAnotherWhileTheLastOneIsHeld) {
  auto first = Take(100);
  auto second = Take(10);
  EXPECT_NE(first->data(), second->data());
  const float* const place = first->data();
  first.reset();
  second.reset();  // the smaller one, which goes
  EXPECT_EQ(Take(50)->data(), place);
}

TEST_F(ReusedArrayTest, GrowsAndIsHeldForLongerThanItsOwner) {
  Take(10);
  const auto held = Take(1000);
  device_->is_full = true;
  EXPECT_EQ(reused_->Take(5).status().code(),
            absl::StatusCode::kResourceExhausted);
  reused_.reset();
  EXPECT_EQ(held->size(), 1000);
}

}  // namespace
}  // namespace espalier
