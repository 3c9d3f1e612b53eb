#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::replay_drafter_test {
namespace {

using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

constexpr int64_t kVocab = 50;
constexpr DraftBudget kBudget = {.max_nodes = 30, .max_depth = 6};

class ReplayDrafterTest : public ::testing::Test {
 protected:
  ReplayDrafterTest() {
    std::ofstream file(path_);
    file << "7, 8, 2\n\n";
    for (TokenId token : text_) file << token << " ";
  }

  DrafterOptions With(const Options& more) const {
    Options options = {{"drafter", "prompt_lookup"}, {"texts", path_}};
    options.insert(more.begin(), more.end());
    return {.options = options, .vocab_size = kVocab};
  }

  std::string ErrorWith(const Options& more) const {
    return std::string(NewReplayDrafter(With(more)).status().message());
  }

  SequenceView ViewOf(int64_t length) const {
    return {.id = {1, 1},
            .tokens = absl::MakeConstSpan(text_).first(length),
            .budget = kBudget};
  }

  // Returns the number of tokens of the text that the tree's best path has.
  int64_t Hits(const TokenTree& tree, int64_t length) const {
    int32_t node = 0;
    int64_t hits = 0;
    while (length + hits < std::ssize(text_)) {
      node = tree.ChildWith(node, text_[length + hits]);
      if (node == TokenTree::kNoChild) break;
      ++hits;
    }
    return hits;
  }

  // Repeats itself, so that prompt lookup drafts.
  static std::vector<TokenId> RandomText() {
    std::mt19937_64 random(5);
    std::vector<TokenId> text = RandomTokens(random, 100, kVocab);
    const std::vector<TokenId> copy = text;
    for (int i = 0; i < 9; ++i)
      text.insert(text.end(), copy.begin(), copy.end());
    return text;
  }

  const std::string path_ = ::testing::TempDir() + "/replay_texts";
  const std::vector<TokenId> text_ = RandomText();
};

TEST_F(ReplayDrafterTest, KeepsTheShapeOfTheOthersTrees) {
  const auto plain = MakeDrafter("prompt_lookup", Options(), kVocab);
  const auto replay = MakeDrafter("replay", With({}));
  for (int64_t length : {150, 300, 777}) {
    const TokenTree tree = DraftOne(*plain, ViewOf(length));
    const TokenTree replayed = DraftOne(*replay, ViewOf(length));
    ASSERT_GT(tree.num_nodes(), 3);
    EXPECT_EQ(replayed.parents, tree.parents);
    EXPECT_EQ(replayed.log_probs, tree.log_probs);
    EXPECT_EQ(replayed.tokens[0], tree.tokens[0]);
  }
}

TEST_F(ReplayDrafterTest, HitsAsOftenAsItIsTold) {
  const auto sure = MakeDrafter("replay", With({{"rates", "1"}}));
  const auto never = MakeDrafter("replay", With({{"rates", "0"}}));
  const auto often = MakeDrafter("replay", With({{"rates", "0.75,0.5"}}));
  int64_t first = 0, second = 0, rounds = 0;
  for (int64_t length = 130; length < 990; ++length, ++rounds) {
    EXPECT_EQ(Hits(DraftOne(*never, ViewOf(length)), length), 0);
    const TokenTree tree = DraftOne(*sure, ViewOf(length));
    const std::vector<int32_t> depths = tree.Depths();
    EXPECT_EQ(Hits(tree, length),
              *std::max_element(depths.begin(), depths.end()));
    const int64_t hits = Hits(DraftOne(*often, ViewOf(length)), length);
    first += hits >= 1;
    second += hits >= 2;
  }
  EXPECT_NEAR(first, 0.75 * rounds, 0.06 * rounds);
  EXPECT_NEAR(second, 0.75 * 0.5 * rounds, 0.06 * rounds);
}

TEST_F(ReplayDrafterTest, AnUnknownTextHasTheOthersTree) {
  const auto plain = MakeDrafter("prompt_lookup", Options(), kVocab);
  const auto replay = MakeDrafter("replay", With({{"rates", "1"}}));
  std::vector<TokenId> other = text_;
  other[0] = (other[0] + 1) % kVocab;
  SequenceView view = ViewOf(300);
  view.tokens = absl::MakeConstSpan(other).first(300);
  EXPECT_EQ(DraftOne(*replay, view).tokens, DraftOne(*plain, view).tokens);
}

TEST_F(ReplayDrafterTest, PassesOptionsOn) {
  EXPECT_TRUE(NewReplayDrafter(With({{"drafter.min_match", "2"}})).ok());
  EXPECT_THAT(ErrorWith({{"drafter.min_match", "-1"}}), HasSubstr("min_match"));
  EXPECT_THAT(ErrorWith({{"min_match", "2"}}), HasSubstr("min_match"));
}

TEST_F(ReplayDrafterTest, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorWith({{"rates", "0.5,1.5"}}), HasSubstr("rates: \"1.5\""));
  const auto error = [](Options options) {
    return std::string(
        NewReplayDrafter({.options = std::move(options), .vocab_size = 9})
            .status()
            .message());
  };
  EXPECT_THAT(error({{"drafter", "prompt_lookup"}, {"texts", "/no/such"}}),
              HasSubstr("/no/such"));
  EXPECT_THAT(error({{"drafter", "prompt_lookup"}, {"texts", path_}}),
              HasSubstr(":3: not token ids below 9"));
  EXPECT_THAT(error({{"texts", path_}}), HasSubstr("drafter"));
  EXPECT_THAT(ErrorWith({}), "");
  Options self = With({}).options;
  self["drafter"] = "replay";
  EXPECT_THAT(
      std::string(NewReplayDrafter({.options = self, .vocab_size = kVocab})
                      .status()
                      .message()),
      HasSubstr("replay itself"));
}

// A tree of the size that is asked for, whatever the text.
TEST_F(ReplayDrafterTest, ACombFillsTheBudget) {
  DrafterOptions options = With({{"rates", "1"}});
  options.options["drafter"] = "comb";
  const auto drafter = NewReplayDrafter(options);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  for (const DraftBudget& budget :
       {DraftBudget{.max_nodes = 64, .max_depth = 8},
        DraftBudget{.max_nodes = 3, .max_depth = 8},
        DraftBudget{.max_nodes = 5, .max_depth = 1}, DraftBudget{}}) {
    SequenceView view = ViewOf(20);
    view.budget = budget;
    const auto trees = (*drafter)->Draft({&view, 1});
    ASSERT_TRUE(trees.ok()) << trees.status();
    const TokenTree& tree = trees->at(0);
    EXPECT_EQ(tree.num_nodes() - 1, budget.max_nodes);
    EXPECT_TRUE(
        tree.Validate({.max_nodes = 64, .max_depth = 8, .vocab_size = kVocab})
            .ok());
    EXPECT_EQ(Hits(tree, 20), std::min(budget.max_nodes, budget.max_depth));
  }
}

}  // namespace
}  // namespace espalier::drafter::replay_drafter_test
