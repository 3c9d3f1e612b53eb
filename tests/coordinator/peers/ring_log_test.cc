#include "coordinator/peers/ring_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator::ring_log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TargetShape kTarget = {.num_layers = 6, .hidden_size = 4};
constexpr uint64_t kRing = 3;

FeatureContract Taps(std::vector<int32_t> taps) {
  return {.taps = std::move(taps), .hidden_size = 4};
}

class RingLogTest : public ::testing::Test {
 protected:
  RingLogTest() { log_.SetRing({.id = kRing, .device_id = 1}); }

  RingLog log_{kTarget};
};

TEST_F(RingLogTest, GivesEachContractWhatItLacks) {
  EXPECT_THAT(log_.Request(), IsEmpty());
  log_.Want(Taps({2}));
  log_.Want(Taps({0, 5}));
  log_.Want(Taps({2}));
  EXPECT_THAT(log_.Request(), ElementsAre(ElementsAre(2), ElementsAre(0, 5)));
  log_.Add({kRing, {{{0, 4, 0}}, {{0, 4, 100}}}}, 4);
  log_.Add({kRing, {{{4, 1, 300}}, {{4, 1, 400}}}}, 5);
  const StoredFeatures stored = log_.From(0, Taps({2}));
  EXPECT_EQ(stored.ring.id, kRing);
  EXPECT_THAT(stored.segments,
              ElementsAre(RingSegment{0, 4, 0}, RingSegment{4, 1, 300}));
  EXPECT_THAT(
      log_.From(3, Taps({0, 5})).segments,
      ElementsAre(RingSegment{3, 1, 100 + 3 * 16}, RingSegment{4, 1, 400}));
  EXPECT_TRUE(log_.From(5, Taps({2})).empty());
  EXPECT_TRUE(log_.From(0, Taps({1})).empty());
  EXPECT_TRUE(log_.From(0, {}).empty());
}

TEST_F(RingLogTest, WantsNoTapsThatTheTargetLacks) {
  log_.Want(Taps({8}));
  log_.Want(Taps({3, 1}));
  log_.Want({.taps = {1}, .hidden_size = 2});
  EXPECT_THAT(log_.Request(), IsEmpty());
}

TEST_F(RingLogTest, AsksForNothingWithoutARing) {
  log_.Want(Taps({2}));
  log_.SetRing({});
  EXPECT_THAT(log_.Request(), IsEmpty());
}

TEST_F(RingLogTest, SegmentsAreThoseOfTheRingThatIsThere) {
  log_.Want(Taps({2}));
  log_.Add({kRing, {{{0, 4, 0}}}}, 4);
  log_.SetRing({.id = kRing + 1, .device_id = 1});
  EXPECT_TRUE(log_.From(0, Taps({2})).empty());
  log_.Add({kRing + 1, {{{0, 5, 900}}}}, 5);
  EXPECT_THAT(log_.From(0, Taps({2})).segments,
              ElementsAre(RingSegment{0, 5, 900}));
}

// The hello comes after the first result.
TEST_F(RingLogTest, AResultOfANewRingIsKept) {
  log_.Want(Taps({2}));
  log_.Add({kRing, {{{0, 4, 0}}}}, 4);
  log_.Add({kRing + 1, {{{0, 5, 900}}}}, 5);
  EXPECT_TRUE(log_.From(0, Taps({2})).empty());
  log_.SetRing({.id = kRing + 1, .device_id = 1});
  EXPECT_EQ(log_.From(0, Taps({2})).end_position(), 5);
}

TEST_F(RingLogTest, TellsWhatWasNotStored) {
  log_.Want(Taps({2}));
  EXPECT_FALSE(log_.Lacks(Taps({2}))) << "nothing was verified yet";
  log_.Add({kRing, {{{0, 4, 0}}}}, 4);
  EXPECT_FALSE(log_.Lacks(Taps({2})));
  log_.Want(Taps({1}));
  EXPECT_FALSE(log_.Lacks(Taps({1}))) << "it is wanted from now on";
  log_.Add({kRing, {{{4, 1, 300}}}}, 6);
  EXPECT_TRUE(log_.Lacks(Taps({2})));
  EXPECT_TRUE(log_.Lacks(Taps({1})));
  EXPECT_FALSE(log_.Lacks(Taps({3}))) << "nobody wants it";
}

}  // namespace
}  // namespace espalier::coordinator::ring_log_test
