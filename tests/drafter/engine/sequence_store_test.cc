#include "drafter/engine/sequence_store.h"

#include <limits>
#include <vector>

#include "common/speculation/prefix_hash.h"
#include "common/speculation/stale_base.h"
#include "drafter/engine/host_feature_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pointee;
using Tokens = std::vector<TokenId>;

class SequenceStoreTest : public ::testing::Test {
 protected:
  static SequenceId Id(uint64_t number) { return {9, number}; }

  static SequenceUpdate Update(uint64_t number, const Tokens& base,
                               const Tokens& added) {
    return {.sequence = Id(number),
            .base_length = static_cast<int64_t>(base.size()),
            .prefix_hash = PrefixHash(base),
            .new_tokens = added};
  }

  absl::Status Apply(uint64_t number, const Tokens& base, const Tokens& added) {
    return store_.Apply(Update(number, base, added), now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::vector<uint64_t> forgotten_;
  SequenceStore store_{
      {.max_sequences = 3, .max_tokens = 20, .max_idle = absl::Seconds(60)},
      [this](SequenceId id) { forgotten_.push_back(id.number); }};
};

TEST_F(SequenceStoreTest, OpensAndExtends) {
  ASSERT_TRUE(Apply(1, {}, {4, 5}).ok());
  ASSERT_TRUE(Apply(1, {4, 5}, {6}).ok());
  ASSERT_TRUE(Apply(1, {4, 5, 6}, {}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5, 6)));
  EXPECT_THAT(forgotten_, IsEmpty());
}

TEST_F(SequenceStoreTest, AReplayedUpdateChangesNothing) {
  ASSERT_TRUE(Apply(1, {}, {4, 5}).ok());
  ASSERT_TRUE(Apply(1, {4, 5}, {6, 7}).ok());
  ASSERT_TRUE(Apply(1, {4, 5}, {6, 7}).ok());
  ASSERT_TRUE(Apply(1, {}, {4, 5, 6, 7}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(forgotten_, IsEmpty());
}

TEST_F(SequenceStoreTest, AnOverlapThatAgreesOnlyExtends) {
  ASSERT_TRUE(Apply(1, {}, {4, 5, 6}).ok());
  ASSERT_TRUE(Apply(1, {4}, {5, 6, 7, 8}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5, 6, 7, 8)));
  ASSERT_TRUE(Apply(1, {4, 5, 6, 7, 8}, {9}).ok());
  EXPECT_THAT(forgotten_, IsEmpty());
}

TEST_F(SequenceStoreTest, ARollbackForgetsFirstAndCutsOff) {
  ASSERT_TRUE(Apply(1, {}, {4, 5, 6, 7}).ok());
  ASSERT_TRUE(Apply(1, {4, 5}, {8}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5, 8)));
  EXPECT_THAT(forgotten_, ElementsAre(1));
  ASSERT_TRUE(Apply(1, {4, 5}, {}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5)));
  ASSERT_TRUE(Apply(1, {}, {3}).ok());
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(3)));
  EXPECT_THAT(forgotten_, ElementsAre(1, 1, 1));
  // The hash followed.
  EXPECT_TRUE(Apply(1, {3}, {2}).ok());
}

TEST_F(SequenceStoreTest, ABaseBeyondWhatIsHeldIsStale) {
  EXPECT_EQ(HeldLength(Apply(1, {4, 5}, {6})), 0);
  EXPECT_THAT(store_.Find(Id(1)), IsNull());
  ASSERT_TRUE(Apply(1, {}, {4}).ok());
  EXPECT_EQ(HeldLength(Apply(1, {4, 5}, {6})), 1);
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4)));
}

TEST_F(SequenceStoreTest, AnotherPrefixIsStaleFromTheStart) {
  ASSERT_TRUE(Apply(1, {}, {4, 5, 6}).ok());
  EXPECT_EQ(HeldLength(Apply(1, {4, 5, 9}, {7})), 0);
  EXPECT_EQ(HeldLength(Apply(1, {9, 5}, {7})), 0);
  EXPECT_THAT(store_.Find(Id(1)), Pointee(ElementsAre(4, 5, 6)));
}

TEST_F(SequenceStoreTest, UpdatesThatMakeNoSenseAreRefused) {
  SequenceUpdate update = Update(1, {}, {4});
  update.base_length = -1;
  EXPECT_EQ(store_.Apply(update, now_).code(),
            absl::StatusCode::kInvalidArgument);
  update = Update(1, {}, {4});
  update.prefix_hash = 5;
  EXPECT_EQ(store_.Apply(update, now_).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Apply(1, {}, {}).code(), absl::StatusCode::kInvalidArgument);
  update = Update(1, {}, {4});
  update.base_length = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(store_.Apply(update, now_).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.num_sequences(), 0);
}

TEST_F(SequenceStoreTest, ASequenceLongerThanTheStoreIsRefused) {
  EXPECT_EQ(Apply(1, {}, Tokens(21, 3)).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(Apply(1, {}, Tokens(20, 3)).ok());
  EXPECT_EQ(Apply(1, Tokens(20, 3), {3}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(store_.Find(Id(1)), Pointee(Tokens(20, 3)));
}

TEST_F(SequenceStoreTest, TheLeastRecentlyUpdatedMakesRoomForAnother) {
  for (uint64_t id : {1, 2, 3}) ASSERT_TRUE(Apply(id, {}, {4}).ok());
  ASSERT_TRUE(Apply(1, {4}, {5}).ok());
  ASSERT_TRUE(Apply(4, {}, {4}).ok());
  EXPECT_THAT(forgotten_, ElementsAre(2));
  EXPECT_THAT(store_.Find(Id(2)), IsNull());
  EXPECT_EQ(store_.num_sequences(), 3);
  // It is fed again when it is next asked for.
  EXPECT_EQ(HeldLength(Apply(2, {4}, {5})), 0);
}

TEST_F(SequenceStoreTest, TokensOfAllSequencesAreBounded) {
  ASSERT_TRUE(Apply(1, {}, Tokens(8, 3)).ok());
  ASSERT_TRUE(Apply(2, {}, Tokens(8, 3)).ok());
  ASSERT_TRUE(Apply(3, {}, Tokens(4, 3)).ok());
  EXPECT_THAT(forgotten_, IsEmpty());
  ASSERT_TRUE(Apply(3, Tokens(4, 3), Tokens(9, 3)).ok());
  EXPECT_THAT(forgotten_, ElementsAre(1, 2));
  EXPECT_THAT(store_.Find(Id(3)), Pointee(Tokens(13, 3)));
  // Tokens cut off or dropped are no longer counted.
  ASSERT_TRUE(Apply(3, Tokens(2, 3), {}).ok());
  ASSERT_TRUE(Apply(4, {}, Tokens(18, 3)).ok());
  EXPECT_EQ(store_.num_sequences(), 2);
}

TEST_F(SequenceStoreTest, EndDropsAndIgnoresTheUnknown) {
  ASSERT_TRUE(Apply(1, {}, {4}).ok());
  store_.End(Id(1));
  store_.End(Id(1));
  EXPECT_THAT(forgotten_, ElementsAre(1));
  EXPECT_EQ(store_.num_sequences(), 0);
}

TEST_F(SequenceStoreTest, IdleSequencesAreDropped) {
  ASSERT_TRUE(Apply(1, {}, {4}).ok());
  now_ += absl::Seconds(30);
  ASSERT_TRUE(Apply(2, {}, {4}).ok());
  store_.DropIdle(now_ + absl::Seconds(29));
  EXPECT_EQ(store_.num_sequences(), 2);
  store_.DropIdle(now_ + absl::Seconds(30));
  EXPECT_THAT(forgotten_, ElementsAre(1));
  store_.DropIdle(now_ + absl::Seconds(60));
  EXPECT_EQ(store_.num_sequences(), 0);
}

class SequenceStoreFeaturesTest : public SequenceStoreTest {
 protected:
  // Four bytes a position.
  static FeatureRows Rows(int64_t first, int64_t end, uint16_t tag = 1) {
    FeatureRows rows = {.first_position = first, .width = 2};
    for (int64_t i = first; i < end; ++i) {
      rows.data.push_back(static_cast<uint16_t>(i));
      rows.data.push_back(tag);
    }
    return rows;
  }

  static FeatureContract Contract() {
    return {.taps = {0, 1}, .hidden_size = 1};
  }
  SequenceStore::Forget Note() {
    return [this](SequenceId id) { forgotten_.push_back(id.number); };
  }

  // Compares the drafter's memory of a sequence.
  void ExpectHeld(const SequenceStore& store, uint64_t id,
                  const FeatureRows& rows) {
    const FeatureRange range = store.FeaturesOf(Id(id));
    EXPECT_EQ(range, (FeatureRange{rows.first_position, rows.end_position()}));
    EXPECT_EQ(memory_.Rows(Id(id), range), absl::MakeConstSpan(rows.data));
  }

  HostFeatureStore memory_{Contract()};
  SequenceStore large_{{}, Note(), &memory_};
  SequenceStore small_{{.max_feature_bytes = 40}, Note(), &memory_};
};

TEST_F(SequenceStoreFeaturesTest, AreKeptAndCutWithTheTokens) {
  const auto apply = [&](const Tokens& base, const Tokens& added) {
    return large_.Apply(Update(1, base, added), now_).ok();
  };
  ASSERT_TRUE(apply({}, {4, 5, 6, 7}));
  large_.AddFeatures(Id(1), Rows(0, 3));
  large_.AddFeatures(Id(1), {});
  ExpectHeld(large_, 1, Rows(0, 3));
  ASSERT_TRUE(apply({4, 5, 6, 7}, {8, 9}));
  large_.AddFeatures(Id(1), Rows(3, 5));
  ExpectHeld(large_, 1, Rows(0, 5));
  large_.AddFeatures(Id(1), Rows(1, 5));  // nothing new
  ExpectHeld(large_, 1, Rows(0, 5));
  ASSERT_TRUE(apply({4, 5, 6}, {3}));
  ExpectHeld(large_, 1, Rows(0, 3));
  large_.AddFeatures(Id(2), Rows(0, 1));  // not held
  large_.End(Id(1));
  EXPECT_TRUE(large_.FeaturesOf(Id(1)).empty());
  memory_.Append(Id(1), 7, Rows(7, 8).data);  // nothing is left before it
}

TEST_F(SequenceStoreFeaturesTest, OverlapsAreReadOnceAndGapsStartAgain) {
  ASSERT_TRUE(large_.Apply(Update(1, {}, Tokens(20, 3)), now_).ok());
  large_.AddFeatures(Id(1), Rows(5, 8));
  large_.AddFeatures(Id(1), Rows(6, 10, 7));
  FeatureRows both = Rows(5, 8);
  const FeatureRows rest = Rows(8, 10, 7);
  both.data.insert(both.data.end(), rest.data.begin(), rest.data.end());
  ExpectHeld(large_, 1, both);
  large_.AddFeatures(Id(1), Rows(12, 14));
  ExpectHeld(large_, 1, Rows(12, 14));
  large_.AddFeatures(Id(1), Rows(0, 15));
  ExpectHeld(large_, 1, Rows(0, 15));
}

TEST_F(SequenceStoreFeaturesTest, OthersMakeRoomThenTheFirstRowsGo) {
  ASSERT_TRUE(small_.Apply(Update(1, {}, Tokens(20, 3)), now_).ok());
  small_.AddFeatures(Id(1), Rows(0, 6));
  ASSERT_TRUE(small_.Apply(Update(2, {}, Tokens(20, 3)), now_).ok());
  EXPECT_EQ(small_.num_sequences(), 2);
  small_.AddFeatures(Id(2), Rows(0, 6));
  EXPECT_THAT(small_.Find(Id(1)), IsNull());
  EXPECT_THAT(forgotten_, ElementsAre(1));
  small_.AddFeatures(Id(2), Rows(6, 11));
  ExpectHeld(small_, 2, Rows(3, 11));
  // Ended ones are not counted any more.
  small_.End(Id(2));
  for (uint64_t id : {3, 4}) {
    ASSERT_TRUE(small_.Apply(Update(id, {}, Tokens(20, 3)), now_).ok());
    small_.AddFeatures(Id(id), Rows(0, 5));
  }
  EXPECT_EQ(small_.num_sequences(), 2);
}

}  // namespace
}  // namespace espalier::drafter
