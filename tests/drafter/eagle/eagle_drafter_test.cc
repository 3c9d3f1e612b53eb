// An EAGLE head when features are late or lost.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/bf16.h"
#include "drafter/drafters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/source_path.h"

namespace espalier::drafter::eagle_drafter_test {
namespace {

constexpr int64_t kVocab = 96;
constexpr DraftBudget kBudget = {.max_nodes = 12, .max_depth = 4};

std::unique_ptr<Drafter> MakeHead() {
  const std::string fixtures = SourcePath("tests/drafter/golden/fixtures/");
  return MakeDrafter(
      "eagle", {.options = {{"model", fixtures + "eagle31_midlayer/head"}},
                .target_folder = fixtures + "targets/tied",
                .vocab_size = kVocab});
}

class EagleDrafterTest : public ::testing::Test {
 protected:
  EagleDrafterTest() {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    tokens_ = RandomTokens(random, 100, kVocab);
    features_.width = WantedFeatures(*head_).width();
    features_.data.resize((tokens_.size() - 1) * features_.width);
    for (uint16_t& value : features_.data) value = FloatToBf16(normal(random));
  }

  // Drafts after the first `length` tokens with the features of positions first
  // .. end - 1.
  TokenTree Draft(Drafter& head, int64_t length, int64_t first, int64_t end,
                  const DraftBudget& budget = kBudget) {
    FeatureRows rows = features_;
    rows.CutFrom(end);
    rows.CutBefore(first);
    const SequenceView view = {
        .id = {1, 1},
        .tokens = absl::MakeConstSpan(tokens_).first(length),
        .budget = budget};
    return DraftOne(head, ViewAndFeatures{view, &rows});
  }

  // Another sequence, with the features from position 64 on.
  TokenTree DraftWithoutTheFirst(Drafter& head,
                                 const std::vector<TokenId>& tokens,
                                 absl::string_view salt) {
    FeatureRows rows = features_;
    rows.CutFrom(std::ssize(tokens) - 1);
    rows.CutBefore(64);
    const SequenceView view = {.id = {1, ++number_},
                               .tokens = tokens,
                               .budget = kBudget,
                               .cache_salt = salt};
    return DraftOne(head, ViewAndFeatures{view, &rows});
  }

  const std::unique_ptr<Drafter> head_ = MakeHead();
  uint64_t number_ = 1;
  std::vector<TokenId> tokens_;
  FeatureRows features_;
};

TEST_F(EagleDrafterTest, WithoutTheLastFeatureNothingIsDrafted) {
  EXPECT_EQ(Draft(*head_, 30, 0, 28).num_nodes(), 1);
  // When it comes, all is as if it had never been late.
  const TokenTree tree = Draft(*head_, 30, 0, 29);
  EXPECT_EQ(tree.num_nodes(), 13);
  EXPECT_EQ(tree.tokens, Draft(*MakeHead(), 30, 0, 29).tokens);
}

// The first level is always drafted.
TEST_F(EagleDrafterTest, LevelsThatDoNotPayAreNotDrafted) {
  const auto depth = [this](float least_reach) {
    const std::vector<int32_t> depths =
        Draft(*MakeHead(), 30, 0, 29, kBudget.WithReach(least_reach)).Depths();
    return *std::max_element(depths.begin(), depths.end());
  };
  EXPECT_GT(depth(0), 1);
  EXPECT_EQ(depth(1), 1);
}

TEST_F(EagleDrafterTest, LostFeaturesAreWorkedWithout) {
  const TokenTree tree = Draft(*head_, 30, 10, 29);
  EXPECT_EQ(tree.num_nodes(), 13);
  const TokenTree whole = Draft(*MakeHead(), 30, 0, 29);
  EXPECT_NE(tree.log_probs, whole.log_probs);
}

TEST_F(EagleDrafterTest, RowsThatWereComputedStayWhenTheirFeaturesGo) {
  Draft(*head_, 30, 0, 29);
  const TokenTree tree = Draft(*head_, 32, 25, 31);
  EXPECT_EQ(tree.tokens, Draft(*MakeHead(), 32, 0, 31).tokens);
}

TEST_F(EagleDrafterTest, BehindAGapTheHeadStartsAgain) {
  Draft(*head_, 20, 0, 19);
  const TokenTree tree = Draft(*head_, 35, 25, 34);
  EXPECT_EQ(tree.tokens, Draft(*MakeHead(), 35, 25, 34).tokens);
  EXPECT_EQ(tree.num_nodes(), 13);
}

TEST_F(EagleDrafterTest, AnUnaskedHeadIsAdvancedToo) {
  for (int64_t length = 2; length < 40; ++length) {
    Draft(*head_, length, 0, length - 1, {.max_nodes = 0, .max_depth = 4});
  }
  const auto always_asked = MakeHead();
  for (int64_t length = 2; length < 40; ++length) {
    Draft(*always_asked, length, 0, length - 1);
  }
  const TokenTree tree = Draft(*head_, 40, 0, 39);
  const TokenTree expected = Draft(*always_asked, 40, 0, 39);
  EXPECT_EQ(tree.tokens, expected.tokens);
  EXPECT_EQ(tree.parents, expected.parents);
  EXPECT_EQ(tree.log_probs, expected.log_probs);
}

// Rows of a text that was read before need no features.
TEST_F(EagleDrafterTest, ASecondSequenceOfTheTextTakesItsRows) {
  const std::vector<TokenId> text(tokens_.begin(), tokens_.begin() + 90);
  Draft(*head_, 80, 0, 79);
  Draft(*head_, 81, 0, 80);  // offers the rows of the first
  head_->Forget({1, 1});
  const TokenTree whole = Draft(*MakeHead(), 90, 0, 89);
  const TokenTree cached = DraftWithoutTheFirst(*head_, text, "");
  EXPECT_EQ(cached.tokens, whole.tokens);
  EXPECT_EQ(cached.log_probs, whole.log_probs);

  const TokenTree alone = DraftWithoutTheFirst(*MakeHead(), text, "");
  EXPECT_NE(alone.log_probs, whole.log_probs);
  EXPECT_EQ(DraftWithoutTheFirst(*head_, text, "salt").log_probs,
            alone.log_probs);
  for (const size_t changed : {0, 1, 63}) {
    std::vector<TokenId> other = text;
    other[changed] = (other[changed] + 1) % kVocab;
    EXPECT_EQ(DraftWithoutTheFirst(*head_, other, "").log_probs,
              alone.log_probs)
        << changed;
  }
}

}  // namespace
}  // namespace espalier::drafter::eagle_drafter_test
