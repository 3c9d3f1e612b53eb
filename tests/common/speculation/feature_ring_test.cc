#include "common/speculation/feature_ring.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AppendSegmentTest, OneThatFollowsIsAdded) {
  std::vector<RingSegment> segments;
  AppendSegment({3, 2, 100}, segments);
  AppendSegment({5, 1, 300}, segments);
  EXPECT_THAT(segments,
              ElementsAre(RingSegment{3, 2, 100}, RingSegment{5, 1, 300}));
}

// A preempted sequence computes its positions again.
TEST(AppendSegmentTest, ALaterOneReplacesItsPositionsAndThoseAfterThem) {
  std::vector<RingSegment> segments = {{0, 4, 0}, {4, 2, 50}, {6, 2, 70}};
  AppendSegment({3, 2, 100}, segments);
  EXPECT_THAT(segments,
              ElementsAre(RingSegment{0, 3, 0}, RingSegment{3, 2, 100}));
  AppendSegment({0, 1, 200}, segments);
  EXPECT_THAT(segments, ElementsAre(RingSegment{0, 1, 200}));
}

TEST(AppendSegmentTest, OneAfterAGapReplacesAll) {
  std::vector<RingSegment> segments = {{0, 4, 0}};
  AppendSegment({5, 2, 100}, segments);
  EXPECT_THAT(segments, ElementsAre(RingSegment{5, 2, 100}));
}

TEST(AppendSegmentTest, TheFirstGiveWayToTooMany) {
  std::vector<RingSegment> segments;
  for (int64_t i = 0; i < 3 * kMaxRingSegments; ++i) {
    AppendSegment({i, 1, static_cast<uint64_t>(i)}, segments);
    ASSERT_LE(std::ssize(segments), kMaxRingSegments);
    ASSERT_EQ(segments.back().first_position, i);
  }
  EXPECT_GT(std::ssize(segments), kMaxRingSegments / 2);
  EXPECT_TRUE(AreConsecutive(segments));
}

TEST(SegmentsFromTest, BeginAtThePosition) {
  const std::vector<RingSegment> segments = {{2, 3, 10}, {5, 4, 40}};
  EXPECT_EQ(SegmentsFrom(0, 10, segments), segments);
  EXPECT_THAT(SegmentsFrom(4, 10, segments),
              ElementsAre(RingSegment{4, 1, 30}, RingSegment{5, 4, 40}));
  EXPECT_THAT(SegmentsFrom(5, 10, segments),
              ElementsAre(RingSegment{5, 4, 40}));
  EXPECT_THAT(SegmentsFrom(8, 10, segments),
              ElementsAre(RingSegment{8, 1, 70}));
  EXPECT_THAT(SegmentsFrom(9, 10, segments), IsEmpty());
}

TEST(AreConsecutiveTest, NeedsRowsAndNoGaps) {
  EXPECT_TRUE(AreConsecutive({}));
  EXPECT_TRUE(AreConsecutive({{0, 2, 9}, {2, 1, 3}}));
  EXPECT_FALSE(AreConsecutive({{0, 2, 9}, {3, 1, 3}}));
  EXPECT_FALSE(AreConsecutive({{0, 2, 9}, {1, 1, 3}}));
  EXPECT_FALSE(AreConsecutive({{0, 0, 9}}));
  EXPECT_FALSE(AreConsecutive({{-1, 2, 9}}));
}

TEST(RingPlacesTest, NothingOutsideOfTheDataIsInTheRing) {
  EXPECT_TRUE(IsInRing(0, 256, 256));
  EXPECT_TRUE(IsInRing(512 + 200, 56, 256));
  EXPECT_FALSE(IsInRing(512 + 200, 57, 256));
  EXPECT_FALSE(IsInRing(0, 257, 256));
  EXPECT_FALSE(IsInRing(0, 0, 256));
  EXPECT_FALSE(IsInRing(0, -8, 256));
  EXPECT_FALSE(IsInRing(kMaxRingOffset + 256, 8, 256));
  EXPECT_FALSE(IsInRing(0, std::numeric_limits<int64_t>::max(), 256));
}

// A writer and what its ring really holds.
TEST(RingPlacesTest, IntactAreThoseThatNoLaterSegmentHasOverwritten) {
  std::mt19937_64 random(3);
  constexpr int64_t kBytes = 200;
  std::vector<int> owners(kBytes, -1);  // of each byte: which segment
  struct Written {
    uint64_t offset;
    int64_t bytes;
  };
  std::vector<Written> written;
  uint64_t cursor = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto bytes = static_cast<int64_t>(1 + random() % kBytes);
    const uint64_t offset = NextOffset(cursor, bytes, kBytes);
    ASSERT_GE(offset, cursor);
    ASSERT_TRUE(IsInRing(offset, bytes, kBytes));
    EXPECT_FALSE(IsIntact(offset, bytes, kBytes, cursor)) << "not yet written";
    cursor = offset + bytes;
    for (int64_t b = 0; b < bytes; ++b) owners[offset % kBytes + b] = i;
    written.push_back({offset, bytes});
    for (int j = std::max(0, i - 20); j <= i; ++j) {
      const auto [begin, size] = written[j];
      if (!IsIntact(begin, size, kBytes, cursor)) continue;
      for (int64_t b = 0; b < size; ++b) {
        ASSERT_EQ(owners[begin % kBytes + b], j);
      }
    }
    ASSERT_TRUE(IsIntact(offset, bytes, kBytes, cursor));
  }
}

}  // namespace
}  // namespace espalier
