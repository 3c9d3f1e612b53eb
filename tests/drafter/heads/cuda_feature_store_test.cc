// Features on a device: what a network reads there is what came.
#include "drafter/heads/cuda_feature_store.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kWidth = 6;
constexpr SequenceId kId = {1, 1};

class CudaFeatureStoreTest : public ::testing::Test {
 protected:
  // The row of a position is known by it.
  static std::vector<uint16_t> RowsOf(int64_t begin, int64_t end) {
    std::vector<uint16_t> rows;
    for (int64_t i = begin * kWidth; i < end * kWidth; ++i) {
      rows.push_back(static_cast<uint16_t>(i));
    }
    return rows;
  }
  std::vector<uint16_t> Read(int64_t begin, int64_t end) {
    const auto rows = store_.Rows(kId, {begin, end});
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<uint16_t> read((end - begin) * kWidth);
    if (!rows.ok()) return read;
    device_.Copy(read.data(), *rows, std::ssize(read) * 2);
    EXPECT_TRUE(device_.Wait(device_.Record()).ok());
    return read;
  }

  testing::WatchedDevice device_;
  CudaFeatureStore store_{{.taps = {1, 2}, .hidden_size = 3}, device_};
};

TEST_F(CudaFeatureStoreTest, HoldsWhatWasAppendedAndNotCut) {
  std::mt19937_64 random(2);
  FeatureRange held = {5, 5};
  for (int i = 0; i < 200; ++i) {
    const int64_t more = static_cast<int64_t>(random() % 40);
    store_.Append(kId, held.end, RowsOf(held.end, held.end + more));
    held.end += more;
    if (random() % 3 == 0) {
      held.begin += static_cast<int64_t>(random() % (held.size() + 1)) / 2;
      held.begin = std::max(held.begin, int64_t{5});
      store_.Cut(kId, held);
    }
    if (held.empty()) continue;
    ASSERT_EQ(Read(held.begin, held.end), RowsOf(held.begin, held.end));
  }
}

TEST_F(CudaFeatureStoreTest, SequencesAreApart) {
  store_.Append(kId, 0, RowsOf(0, 3));
  store_.Append({1, 2}, 7, RowsOf(7, 9));
  EXPECT_EQ(Read(1, 3), RowsOf(1, 3));
  store_.Cut({1, 2}, {});
  EXPECT_EQ(Read(0, 3), RowsOf(0, 3));
}

TEST_F(CudaFeatureStoreTest, NoRoomIsToldUntilTheSequenceStartsAgain) {
  device_.is_full = true;
  store_.Append(kId, 0, RowsOf(0, 3));
  device_.is_full = false;
  store_.Append(kId, 3, RowsOf(3, 4));
  EXPECT_EQ(store_.Rows(kId, {3, 4}).status().code(),
            absl::StatusCode::kResourceExhausted);
  store_.Cut(kId, {});
  store_.Append(kId, 9, RowsOf(9, 11));
  EXPECT_EQ(Read(9, 11), RowsOf(9, 11));
}

// The store has a ring of 20 rows.
class RingFeaturesTest : public CudaFeatureStoreTest {
 protected:
  void SetUp() override {
    auto ring =
        FeatureRing::Make(std::make_shared<testing::WatchedDevice>(), 256);
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    store_.UseRing(ring_);
  }
  // Puts the rows of these positions into the ring now, and returns where they
  // are.
  StoredFeatures Put(int64_t begin, int64_t end) {
    const auto segments = ring_->PutRows(RowsOf(begin, end), kWidth, begin);
    EXPECT_TRUE(segments.ok()) << segments.status();
    return {.ring = ring_->info(), .segments = *segments};
  }

  std::shared_ptr<FeatureRing> ring_;
};

TEST_F(RingFeaturesTest, RowsOfTheRingFollowThoseThatWereSent) {
  EXPECT_TRUE(ring_->info().ReachedFrom(store_.device_id()));
  store_.Append(kId, 3, RowsOf(3, 5));
  EXPECT_EQ(*store_.AppendStored(kId, Put(5, 9)), (FeatureRange{5, 9}));
  EXPECT_EQ(Read(3, 9), RowsOf(3, 9));
  // The store has copied the rows that are overwritten later.
  Put(50, 68);
  EXPECT_EQ(Read(3, 9), RowsOf(3, 9));
}

TEST_F(RingFeaturesTest, OnlyIntactRowsAreAdded) {
  store_.Append(kId, 0, RowsOf(0, 2));
  StoredFeatures old = Put(2, 9);
  const StoredFeatures last = Put(9, 19);
  Put(90, 95);  // over the first
  EXPECT_TRUE(store_.AppendStored(kId, old)->empty());
  EXPECT_EQ(Read(0, 2), RowsOf(0, 2)) << "what it had";
  old.segments.push_back(last.segments[0]);
  EXPECT_EQ(*store_.AppendStored(kId, old), (FeatureRange{9, 19}));
  store_.Cut(kId, {9, 19});
  EXPECT_EQ(Read(9, 19), RowsOf(9, 19));
}

TEST_F(RingFeaturesTest, NothingIsAddedOfARingThatCannotBeRead) {
  store_.Append(kId, 0, RowsOf(0, 2));
  StoredFeatures stored = Put(2, 9);
  stored.ring.id += 1;
  stored.ring.handle = "nowhere";
  EXPECT_EQ(store_.AppendStored(kId, stored).status().code(),
            absl::StatusCode::kFailedPrecondition);
  store_.Append(kId, 2, RowsOf(2, 4));
  EXPECT_EQ(Read(0, 4), RowsOf(0, 4));
}

TEST_F(RingFeaturesTest, ALostDeviceIsToldWhereRowsAreRead) {
  const StoredFeatures first = Put(0, 2), second = Put(2, 4);
  ASSERT_TRUE(store_.AppendStored(kId, first).ok());
  device_.is_lost = true;
  EXPECT_TRUE(store_.AppendStored(kId, second).ok());
  EXPECT_EQ(store_.Rows(kId, {0, 4}).status().code(),
            absl::StatusCode::kUnavailable);
  device_.is_lost = false;
}

}  // namespace
}  // namespace espalier::drafter
