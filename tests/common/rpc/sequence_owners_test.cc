#include "common/rpc/sequence_owners.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

SequenceId Id(uint64_t number) {
  return {.coordinator_epoch = 9, .number = number};
}

class SequenceOwnersTest : public testing::Test {
 protected:
  SequenceOwners owners_;
  const int streams_[2] = {};
  const void* const one_ = &streams_[0];
  const void* const other_ = &streams_[1];
};

TEST_F(SequenceOwnersTest, ASequenceIsNotTakenOver) {
  EXPECT_TRUE(owners_.Claim(Id(1), one_).ok());
  EXPECT_TRUE(owners_.Claim(Id(1), one_).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(owners_.Claim(Id(1), other_).status()));
  EXPECT_FALSE(owners_.Release(Id(1), other_));
  EXPECT_TRUE(owners_.Owns(Id(1), one_));
  EXPECT_FALSE(owners_.OwnsAny(other_));
  EXPECT_TRUE(owners_.Release(Id(1), one_));
  EXPECT_TRUE(owners_.Claim(Id(1), other_).ok());
}

TEST_F(SequenceOwnersTest, AStreamThatEndsGivesBackItsOwn) {
  for (const uint64_t number : {1, 2}) {
    EXPECT_TRUE(owners_.Claim(Id(number), one_).ok());
  }
  EXPECT_TRUE(owners_.Claim(Id(3), other_).ok());
  EXPECT_THAT(owners_.ReleaseAll(one_), UnorderedElementsAre(Id(1), Id(2)));
  EXPECT_THAT(owners_.ReleaseAll(one_), IsEmpty());
  EXPECT_TRUE(owners_.Owns(Id(3), other_));
}

TEST_F(SequenceOwnersTest, HaveABoundThatReleasedOnesDoNotCountFor) {
  constexpr uint64_t kMax = SequenceOwners::kMaxSequences;
  ASSERT_LE(kMax, uint64_t{1} << 20);
  for (uint64_t i = 0; i < kMax; ++i) {
    ASSERT_TRUE(owners_.Claim(Id(i), one_).ok());
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(owners_.Claim(Id(kMax), one_).status()));
  EXPECT_TRUE(owners_.Claim(Id(0), one_).ok()) << "it has this one";
  EXPECT_TRUE(owners_.Release(Id(0), one_));
  const auto taken = owners_.Claim(Id(kMax), other_);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(*taken, std::nullopt);
}

TEST_F(SequenceOwnersTest, AStreamThatHasFewGetsThePlaceOfOneThatHasMost) {
  constexpr uint64_t kMax = SequenceOwners::kMaxSequences;
  for (uint64_t i = 0; i < kMax; ++i) {
    ASSERT_TRUE(owners_.Claim(Id(i), one_).ok());
  }
  for (uint64_t i = 0; i < 10; ++i) {
    const auto taken = owners_.Claim(Id(kMax + i), other_);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_TRUE(taken->has_value());
    EXPECT_LT((*taken)->number, kMax);
    EXPECT_FALSE(owners_.Owns(**taken, one_));
    EXPECT_TRUE(owners_.Owns(Id(kMax + i), other_));
  }
}

TEST_F(SequenceOwnersTest, ARefusedRequestGivesItsClaimBack) {
  ASSERT_TRUE(owners_.Claim(Id(1), one_).ok());
  EXPECT_TRUE(owners_.Settle(Id(1), one_, /*success=*/false));
  EXPECT_FALSE(owners_.OwnsAny(one_));
  EXPECT_TRUE(owners_.Claim(Id(1), other_).ok());
}

TEST_F(SequenceOwnersTest, ARefusedRequestDoesNotEndWhatOthersHaveOpened) {
  ASSERT_TRUE(owners_.Claim(Id(1), one_).ok());
  ASSERT_TRUE(owners_.Claim(Id(1), one_).ok());
  EXPECT_FALSE(owners_.Settle(Id(1), one_, false)) << "one is in progress";
  EXPECT_FALSE(owners_.Settle(Id(1), one_, true));
  ASSERT_TRUE(owners_.Claim(Id(1), one_).ok());
  EXPECT_FALSE(owners_.Settle(Id(1), one_, false)) << "one has succeeded";
  EXPECT_TRUE(owners_.Owns(Id(1), one_));
}

}  // namespace
}  // namespace espalier
