// A drafter beside the verifier takes features from where that leaves them.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/spec/prefix_hash.h"
#include "drafter/draft_engine.h"
#include "drafter/host_feature_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::drafter {
namespace {

using ::testing::HasSubstr;

using Tokens = std::vector<TokenId>;
using Answer = absl::StatusOr<Proposal>;

// In the host's memory. Its rows are known by position and tap.
class FakeStored final : public StoredFeatures {
 public:
  static constexpr uint64_t kKey = 9;

  std::vector<StoredRows> Find(uint64_t key, absl::Span<const int32_t> taps,
                               int64_t position) const override {
    if (key != kKey || std::max(position, begin) >= end) return {};
    const auto rows = std::make_shared<FeatureRows>(
        RowsOf(std::max(position, begin), end, taps));
    return {{.first_position = rows->first_position,
             .num_rows = rows->num_rows(),
             .data = rows->data.data(),
             .owner = rows}};
  }
  static FeatureRows RowsOf(int64_t begin, int64_t end,
                            absl::Span<const int32_t> taps) {
    FeatureRows rows = {.first_position = begin, .width = std::ssize(taps)};
    for (int64_t i = begin; i < end; ++i) {
      for (int32_t tap : taps) {
        rows.data.push_back(static_cast<uint16_t>(10 * i + tap));
      }
    }
    return rows;
  }

  int64_t begin = 0, end = 0;  // what is held
};

// Drafts a seven, and shows the features that it was given.
class SeeingDrafter final : public Drafter {
 public:
  explicit SeeingDrafter(FeatureRows& seen) : seen_(seen) {}

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
  HostFeatureStore features_{{.taps = {1, 3}, .hidden_size = 1}};
};

class StoredFeaturesTest : public ::testing::Test {
 protected:
  StoredFeaturesTest() {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    engine_ = std::make_unique<DraftEngine>(
        DraftEngine::Options{
            .name = "head", .vocab_size = 10, .stored_features = stored_},
        std::make_unique<SeeingDrafter>(seen_), std::move(executor),
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
  std::shared_ptr<FakeStored> stored_ = std::make_shared<FakeStored>();
  FakeExecutor* executor_ = nullptr;
  std::unique_ptr<DraftEngine> engine_;
};

TEST_F(StoredFeaturesTest, StoredFeaturesReachTheDrafter) {
  const std::vector<int32_t> taps = {1, 3};
  ASSERT_TRUE(ProposeNow(Request({}, {2, 3, 4, 5})).ok());
  stored_->end = 6;  // the verifier is ahead
  ProposeRequest request = Request({2, 3, 4, 5}, {});
  request.stored = {.key = FakeStored::kKey, .end = 3};
  const Answer first = ProposeNow(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->lacks_features);
  EXPECT_EQ(seen_, FakeStored::RowsOf(0, 3, taps));
  // It has them; where some are lost, it goes on with those after them.
  stored_->begin = 3;
  ProposeRequest next = Request({2, 3, 4, 5}, {6, 7});
  next.stored = {.key = FakeStored::kKey, .end = 5};
  EXPECT_FALSE(ProposeNow(next)->lacks_features);
  EXPECT_EQ(seen_, FakeStored::RowsOf(0, 5, taps));
  stored_->begin = 6;
  stored_->end = 7;
  ProposeRequest after = Request({2, 3, 4, 5, 6, 7}, {8, 9});
  after.stored = {.key = FakeStored::kKey, .end = 7};
  EXPECT_FALSE(ProposeNow(after)->lacks_features);
  EXPECT_EQ(seen_, FakeStored::RowsOf(6, 7, taps));
}

TEST_F(StoredFeaturesTest, StoredFeaturesThatAreNotThereAreTold) {
  ProposeRequest request = Request({}, {2, 3, 4, 5});
  request.stored = {.key = FakeStored::kKey + 1, .end = 3};
  const Answer other_key = ProposeNow(request);
  ASSERT_TRUE(other_key.ok()) << other_key.status();
  EXPECT_TRUE(other_key->lacks_features);
  EXPECT_EQ(other_key->tree.num_nodes(), 2) << "it drafts nevertheless";
  stored_->end = 2;
  request = Request({2, 3, 4, 5}, {});
  request.stored = {.key = FakeStored::kKey, .end = 3};
  EXPECT_TRUE(ProposeNow(request)->lacks_features);
  EXPECT_EQ(seen_.end_position(), 2) << "what there is";
  // They come with a request instead.
  request = Request({2, 3, 4, 5}, {6});
  request.features = FakeStored::RowsOf(2, 4, {{1, 3}});
  EXPECT_FALSE(ProposeNow(request)->lacks_features);
  EXPECT_EQ(seen_, FakeStored::RowsOf(0, 4, {{1, 3}}));
}

TEST_F(StoredFeaturesTest, StoredFeaturesEndBeforeTheRoot) {
  for (int64_t end : {int64_t{-1}, int64_t{4}}) {
    ProposeRequest request = Request({}, {2, 3, 4, 5});
    request.stored = {.key = FakeStored::kKey, .end = end};
    const absl::Status refused = ProposeNow(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << end;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("stored_features.end_position"));
  }
}

}  // namespace
}  // namespace espalier::drafter
