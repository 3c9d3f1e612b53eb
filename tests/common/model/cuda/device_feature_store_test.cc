// Features in a device's memory: what is found is what a pass left.
#include "common/model/cuda/device_feature_store.h"

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/cuda/emulated_device.h"
#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

constexpr int kHidden = 64;
constexpr uint64_t kKey = 5;
const std::vector<int32_t> kPoints = {1, 4, 7};

// What a state is made of tells whose it is.
uint16_t NumberAt(int64_t position, int32_t tap, int column) {
  return static_cast<uint16_t>(position * 1009 + tap * 131 + column);
}

class DeviceFeatureStoreTest : public ::testing::Test {
 protected:
  DeviceFeatureStoreTest() { Open(int64_t{1} << 30); }

  void Open(int64_t max_bytes) {
    auto device = std::make_unique<testing::WatchedDevice>();
    device_ = device.get();
    store_ = std::make_unique<DeviceFeatureStore>(std::move(device), max_bytes);
  }

  // As if a pass had computed `count` positions, among rows that nobody keeps.
  absl::Status Put(uint64_t key, const std::vector<int32_t>& taps,
                   int64_t position, int64_t count) {
    const int rows = static_cast<int>(2 * count + 1);
    std::vector<int32_t> kept;
    std::vector<uint16_t>& states =
        states_.emplace_back(kPoints.size() * rows * kHidden, uint16_t{0xffff});
    for (int64_t i = 0; i < count; ++i) {
      kept.push_back(static_cast<int32_t>(2 * i + 1));
      for (size_t p = 0; p < kPoints.size(); ++p) {
        for (int c = 0; c < kHidden; ++c) {
          states[(p * rows + kept.back()) * kHidden + c] =
              NumberAt(position + i, kPoints[p], c);
        }
      }
    }
    return store_->Put(key, taps,
                       {.states = states.data(),
                        .points = kPoints,
                        .rows = rows,
                        .hidden = kHidden},
                       kept, position);
  }

  // Checks what is found, and returns where it begins and ends.
  std::pair<int64_t, int64_t> Found(uint64_t key,
                                    const std::vector<int32_t>& taps,
                                    int64_t position = 0) {
    const std::vector<StoredRows> runs = store_->Find(key, taps, position);
    if (runs.empty()) return {0, 0};
    int64_t next = runs.front().first_position;
    for (const StoredRows& run : runs) {
      EXPECT_EQ(run.first_position, next);
      next = run.end_position();
      const uint16_t* number = run.data;
      for (int64_t i = run.first_position; i < next; ++i) {
        for (int32_t tap : taps) {
          for (int c = 0; c < kHidden; ++c) {
            EXPECT_EQ(*number++, NumberAt(i, tap, c)) << i << " " << tap;
          }
        }
      }
    }
    return {runs.front().first_position, next};
  }

  using Ends = std::pair<int64_t, int64_t>;

  // A lost device has work left, which ends with the store.
  std::deque<std::vector<uint16_t>> states_;
  std::unique_ptr<DeviceFeatureStore> store_;
  testing::WatchedDevice* device_ = nullptr;  // of the store
};

TEST_F(DeviceFeatureStoreTest, HoldsEachContractsColumns) {
  ASSERT_TRUE(Put(kKey, {1, 7}, 0, 70).ok());
  ASSERT_TRUE(Put(kKey, {4}, 0, 70).ok());
  ASSERT_TRUE(Put(kKey, {1, 7}, 70, 3).ok());
  ASSERT_TRUE(Put(6, {1, 7}, 0, 2).ok());
  EXPECT_EQ(Found(kKey, {1, 7}), (Ends{0, 73}));
  EXPECT_EQ(Found(kKey, {1, 7}, 71), (Ends{71, 73}));
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 70}));
  EXPECT_EQ(Found(6, {1, 7}), (Ends{0, 2}));
  EXPECT_EQ(Found(kKey, {1}), (Ends{0, 0}));
  EXPECT_EQ(Found(7, {4}), (Ends{0, 0}));
  EXPECT_EQ(Found(kKey, {4}, 70), (Ends{0, 0}));
}

// A preempted sequence computes its positions again.
TEST_F(DeviceFeatureStoreTest, PositionsThatAreThereStay) {
  ASSERT_TRUE(Put(kKey, {4}, 3, 10).ok());
  const uint16_t* const first = store_->Find(kKey, {{4}}, 0)[0].data;
  ASSERT_TRUE(Put(kKey, {4}, 0, 8).ok());
  ASSERT_TRUE(Put(kKey, {4}, 8, 9).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{3, 17}));
  EXPECT_EQ(store_->Find(kKey, {{4}}, 0)[0].data, first);
}

// Of a prompt whose K/V was cached.
TEST_F(DeviceFeatureStoreTest, TakesRowsOfTheHost) {
  std::vector<uint16_t> rows;
  for (int64_t position = 2; position < 12; ++position) {
    for (int c = 0; c < kHidden; ++c) rows.push_back(NumberAt(position, 4, c));
  }
  ASSERT_TRUE(Put(kKey, {4}, 0, 5).ok());
  ASSERT_TRUE(store_->PutRows(kKey, {{4}}, rows, kHidden, 2).ok());
  ASSERT_TRUE(Put(kKey, {4}, 12, 1).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 13}));
}

TEST_F(DeviceFeatureStoreTest, AGapStartsAgain) {
  ASSERT_TRUE(Put(kKey, {4}, 0, 10).ok());
  ASSERT_TRUE(Put(kKey, {4}, 12, 2).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{12, 14}));
}

TEST_F(DeviceFeatureStoreTest, ForgetsFromAPositionOn) {
  ASSERT_TRUE(Put(kKey, {4}, 0, 90).ok());
  ASSERT_TRUE(Put(kKey, {4}, 90, 10).ok());
  store_->Forget(kKey, 40);
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 40}));
  ASSERT_TRUE(Put(kKey, {4}, 40, 2).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 42}));
  store_->Forget(kKey, 0);
  store_->Forget(kKey, 0);
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 0}));
  EXPECT_EQ(store_->num_bytes(), 0);
}

TEST_F(DeviceFeatureStoreTest, FirstRowsOfTheLeastRecentSequenceGiveWay) {
  Open(3 * 64 * kHidden * 2);  // three runs of the least size
  ASSERT_TRUE(Put(1, {4}, 0, 64).ok());
  ASSERT_TRUE(Put(1, {4}, 64, 1).ok());
  ASSERT_TRUE(Put(2, {4}, 0, 64).ok());
  ASSERT_TRUE(Put(1, {4}, 65, 1).ok());  // now 2 is the least recent
  ASSERT_TRUE(Put(3, {4}, 0, 1).ok());
  EXPECT_EQ(Found(2, {4}), (Ends{0, 0}));
  ASSERT_TRUE(Put(3, {4}, 1, 64).ok());
  EXPECT_EQ(Found(1, {4}), (Ends{64, 66}));
  EXPECT_EQ(Found(3, {4}), (Ends{0, 65}));
  ASSERT_TRUE(Put(4, {4}, 0, 3 * 64 + 1).ok()) << "it never fits";
  EXPECT_EQ(Found(4, {4}), (Ends{0, 0}));
  EXPECT_LE(store_->num_bytes(), 3 * 64 * kHidden * 2);
}

TEST_F(DeviceFeatureStoreTest, WhatAReaderHoldsOutlivesTheStore) {
  ASSERT_TRUE(Put(kKey, {4}, 0, 3).ok());
  const std::vector<StoredRows> runs = store_->Find(kKey, {{4}}, 0);
  store_->Forget(kKey, 0);
  store_.reset();
  EXPECT_EQ(runs[0].data[2 * kHidden + 9], NumberAt(2, 4, 9));
}

TEST_F(DeviceFeatureStoreTest, AFullDeviceIsNoErrorAndALostOneIs) {
  device_->is_full = true;
  EXPECT_TRUE(Put(kKey, {4}, 0, 3).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{0, 0}));
  device_->is_full = false;
  EXPECT_TRUE(Put(kKey, {4}, 3, 3).ok());
  EXPECT_EQ(Found(kKey, {4}), (Ends{3, 6}));
  device_->is_lost = true;
  EXPECT_EQ(Put(kKey, {4}, 6, 3).code(), absl::StatusCode::kUnavailable);
  device_->is_lost = false;
}

TEST_F(DeviceFeatureStoreTest, RandomSequencesOfCallsKeepWhatTheyPutLast) {
  std::mt19937_64 random(1);
  std::map<uint64_t, Ends> held;
  for (int i = 0; i < 300; ++i) {
    const uint64_t key = random() % 3;
    auto& [begin, end] = held[key];
    const int64_t count = 1 + static_cast<int64_t>(random() % 40);
    switch (random() % 5) {
      case 0:
        store_->Forget(key, begin + (end - begin) / 2);
        end = begin + (end - begin) / 2;
        break;
      case 1:
        ASSERT_TRUE(Put(key, {1, 4}, end + 1, count).ok());
        begin = end + 1;
        end = begin + count;
        break;
      default:
        ASSERT_TRUE(Put(key, {1, 4}, end, count).ok());
        end += count;
    }
    if (begin == end) continue;
    ASSERT_EQ(Found(key, {1, 4}), (Ends{begin, end})) << i;
  }
}

}  // namespace
}  // namespace espalier
