#include "common/model/native/tapped_rows.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

using Bits = std::vector<uint16_t>;

Bits Copied(const TappedRows& tapped, const std::vector<int32_t>& path,
            size_t size) {
  Bits bits(size);
  EXPECT_TRUE(tapped.Copy(path, absl::MakeSpan(bits)).ok());
  return bits;
}

TEST(TappedRows, RoundsToTheNearest) {
  TappedRows tapped;
  tapped.Start(1, {3}, 4);
  const float x[] = {1.0f, 1.00390625f, 1.01171875f, -2.5f};  // two ties
  tapped.Take(3, x);
  EXPECT_EQ(Copied(tapped, {0}, 4), (Bits{0x3F80, 0x3F80, 0x3F82, 0xC020}));
}

TEST(TappedRows, CopiesTheWantedPointsOfAPath) {
  TappedRows tapped;
  tapped.Start(3, {1, 4}, 2);
  EXPECT_TRUE(tapped.Wants(4));
  EXPECT_FALSE(tapped.Wants(2));
  const float one[] = {0, 1, 0, 1, 0, 1}, four[] = {2, 0, 2, 0, -2, 0};
  tapped.Take(4, four);
  tapped.Take(2, four);
  tapped.Take(1, one);
  EXPECT_EQ(Copied(tapped, {0, 2}, 8),
            (Bits{0, 0x3F80, 0x4000, 0, 0, 0x3F80, 0xC000, 0}));
  EXPECT_EQ(Copied(tapped, {}, 0), Bits());
}

TEST(TappedRows, ChecksTheRoom) {
  TappedRows tapped;
  tapped.Start(3, {1, 4}, 2);
  Bits room(9);
  EXPECT_FALSE(tapped.Copy({0, 2}, absl::MakeSpan(room)).ok());
  EXPECT_TRUE(tapped.Copy({0, 2}, {}).ok());
  tapped.Clear();
  EXPECT_FALSE(tapped.Copy({0, 2}, absl::MakeSpan(room).first(8)).ok());
}

}  // namespace
}  // namespace espalier
