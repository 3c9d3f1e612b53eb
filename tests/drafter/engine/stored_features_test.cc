// A drafter on the verifier's device takes features from its ring.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/speculation/prefix_hash.h"
#include "drafter/engine/draft_engine.h"
#include "drafter/engine/host_feature_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::drafter {
namespace {

using ::testing::HasSubstr;

using Tokens = std::vector<TokenId>;
using Answer = absl::StatusOr<Proposal>;

FeatureRows RowsOf(int64_t begin, int64_t end, absl::Span<const int32_t> taps) {
  FeatureRows rows = {.first_position = begin, .width = std::ssize(taps)};
  for (int64_t i = begin; i < end; ++i) {
    for (int32_t tap : taps) {
      rows.data.push_back(static_cast<uint16_t>(10 * i + tap));
    }
  }
  return rows;
}

// Has a ring in the host's memory. Its rows are known by position and tap.
class FakeRingStore final : public FeatureStore {
 public:
  static constexpr uint64_t kRingId = 9;

  FeatureContract contract() const override { return store_.contract(); }
  uint64_t device_id() const override { return 1; }
  void Append(SequenceId id, int64_t position,
              absl::Span<const uint16_t> rows) override {
    store_.Append(id, position, rows);
  }
  absl::StatusOr<FeatureRange> AppendStored(
      SequenceId id, const StoredFeatures& stored) override {
    EXPECT_TRUE(AreConsecutive(stored.segments));
    if (stored.ring.id != kRingId) {
      return absl::FailedPreconditionError("not here");
    }
    const FeatureRange all = {stored.first_position(), stored.end_position()};
    const FeatureRange added = {std::max(all.begin, begin), all.end};
    if (added.empty()) return FeatureRange();
    const FeatureRows rows = RowsOf(all.begin, all.end, contract().taps);
    store_.Append(id, all.begin, rows.data);
    return added;
  }
  void Cut(SequenceId id, FeatureRange range) override {
    store_.Cut(id, range);
  }
  absl::Span<const uint16_t> Rows(SequenceId id, FeatureRange range) const {
    return store_.Rows(id, range);
  }

  int64_t begin = 0;  // those of positions before it are overwritten

 private:
  HostFeatureStore store_{{.taps = {1, 3}, .hidden_size = 1}};
};

// Drafts a seven, and shows the features that it was given.
class SeeingDrafter final : public Drafter {
 public:
  SeeingDrafter(FeatureRows& seen, FakeRingStore& features)
      : seen_(seen), features_(features) {}

  FeatureStore* features() override { return &features_; }
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      const auto rows = features_.Rows(view.id, view.features);
      seen_ = {.first_position = view.features.begin,
               .width = features_.contract().width(),
               .data = {rows.begin(), rows.end()}};
      trees.push_back(TokenTree::RootOnly(view.root()));
      trees.back().Add(0, 7, 0);
    }
    return trees;
  }
  void Forget(SequenceId /*id*/) override {}

 private:
  FeatureRows& seen_;
  FakeRingStore& features_;
};

class StoredFeaturesTest : public ::testing::Test {
 protected:
  StoredFeaturesTest() {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    engine_ = std::make_unique<DraftEngine>(
        DraftEngine::Options{.name = "head", .vocab_size = 10},
        std::make_unique<SeeingDrafter>(seen_, ring_), std::move(executor),
        MakeDrafterMetrics(registry_, "head"));
  }

  static ProposeRequest Request(const Tokens& base, const Tokens& added) {
    return {.update = {.sequence = {1, 1},
                       .base_length = std::ssize(base),
                       .prefix_hash = PrefixHash(base),
                       .new_tokens = added},
            .budget = {.max_nodes = 3, .max_depth = 3}};
  }

  Answer ProposeNow(ProposeRequest request) {
    std::optional<Answer> answer;
    engine_->Propose(std::move(request), absl::InfiniteFuture(), nullptr,
                     [&answer](Answer given) { answer = std::move(given); });
    executor_->RunUntilIdle();
    return answer.value_or(absl::InternalError("not answered"));
  }

  prometheus::Registry registry_;
  FeatureRows seen_;
  FakeRingStore ring_;
  FakeExecutor* executor_ = nullptr;
  std::unique_ptr<DraftEngine> engine_;
};

StoredFeatures Stored(std::vector<RingSegment> segments,
                      uint64_t ring = FakeRingStore::kRingId) {
  return {.ring = {.id = ring}, .segments = std::move(segments)};
}

TEST_F(StoredFeaturesTest, StoredFeaturesReachTheDrafter) {
  const std::vector<int32_t> taps = {1, 3};
  ASSERT_TRUE(ProposeNow(Request({}, {2, 3, 4, 5})).ok());
  ProposeRequest request = Request({2, 3, 4, 5}, {});
  request.stored = Stored({{0, 1, 0}, {1, 2, 50}});
  const Answer first = ProposeNow(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->lacks_features);
  EXPECT_EQ(seen_, RowsOf(0, 3, taps));
  // The rows that it has are not read again, although they are overwritten.
  ring_.begin = 3;
  ProposeRequest next = Request({2, 3, 4, 5}, {6, 7});
  next.stored = Stored({{1, 2, 50}, {3, 2, 90}});
  EXPECT_FALSE(ProposeNow(next)->lacks_features);
  EXPECT_EQ(seen_, RowsOf(0, 5, taps));
}

// It goes on with those after the ones that are lost.
TEST_F(StoredFeaturesTest, TheFirstOnesMayBeOverwritten) {
  ring_.begin = 2;
  ProposeRequest request = Request({}, {2, 3, 4, 5});
  request.stored = Stored({{0, 2, 0}, {2, 1, 50}});
  EXPECT_FALSE(ProposeNow(request)->lacks_features);
  EXPECT_EQ(seen_, RowsOf(2, 3, {{1, 3}}));
  ring_.begin = 4;
  ProposeRequest next = Request({2, 3, 4, 5}, {6, 7});
  next.stored = Stored({{3, 1, 60}, {4, 1, 70}});
  EXPECT_FALSE(ProposeNow(next)->lacks_features);
  EXPECT_EQ(seen_, RowsOf(4, 5, {{1, 3}}));
  ProposeRequest after = Request({2, 3, 4, 5, 6, 7}, {8, 9});
  after.stored = Stored({{6, 1, 70}});  // a gap
  EXPECT_FALSE(ProposeNow(after)->lacks_features);
  EXPECT_EQ(seen_, RowsOf(6, 7, {{1, 3}}));
}

TEST_F(StoredFeaturesTest, StoredFeaturesThatAreNotThereAreTold) {
  ProposeRequest request = Request({}, {2, 3, 4, 5});
  request.stored = Stored({{0, 2, 0}}, FakeRingStore::kRingId + 1);
  const Answer other_ring = ProposeNow(request);
  ASSERT_TRUE(other_ring.ok()) << other_ring.status();
  EXPECT_TRUE(other_ring->lacks_features);
  EXPECT_TRUE(other_ring->ring_unreadable);
  EXPECT_EQ(other_ring->tree.num_nodes(), 2) << "it drafts nevertheless";
  EXPECT_TRUE(seen_.empty());
  request = Request({2, 3, 4, 5}, {});
  request.stored = Stored({{0, 2, 0}});
  EXPECT_FALSE(ProposeNow(request)->lacks_features);
  ring_.begin = 3;  // all of the next are overwritten
  request = Request({2, 3, 4, 5}, {});
  request.stored = Stored({{0, 2, 0}, {2, 1, 50}});
  const Answer overwritten = ProposeNow(request);
  EXPECT_TRUE(overwritten->lacks_features);
  EXPECT_FALSE(overwritten->ring_unreadable);
  EXPECT_EQ(seen_, RowsOf(0, 2, {{1, 3}})) << "what it had";
  // They come with a request instead.
  request = Request({2, 3, 4, 5}, {6});
  request.features = RowsOf(2, 4, {{1, 3}});
  EXPECT_FALSE(ProposeNow(request)->lacks_features);
  EXPECT_EQ(seen_, RowsOf(0, 4, {{1, 3}}));
}

TEST_F(StoredFeaturesTest, SegmentsFollowEachOtherAndEndBeforeTheRoot) {
  const std::vector<std::vector<RingSegment>> bad = {
      {{0, 4, 0}}, {{0, 1, 0}, {2, 1, 9}}, {{0, 0, 0}}, {{-1, 2, 0}}};
  for (const std::vector<RingSegment>& segments : bad) {
    ProposeRequest request = Request({}, {2, 3, 4, 5});
    request.stored = Stored(segments);
    const absl::Status refused = ProposeNow(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("stored_features.segments"));
  }
}

// A drafter on the CPU has no device from which it could read.
TEST(HostFeaturesTest, CannotReadARing) {
  HostFeatureStore store({.taps = {1}, .hidden_size = 1});
  EXPECT_EQ(store.device_id(), 0u);
  EXPECT_FALSE(store.AppendStored({1, 1}, Stored({{0, 1, 0}})).ok());
}

}  // namespace
}  // namespace espalier::drafter
