#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::prompt_lookup_drafter_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pair;

using Text = std::vector<TokenId>;
constexpr int64_t kVocab = 1000;

TokenTree Draft(const Text& text, DraftBudget budget,
                const std::map<std::string, std::string>& options = {}) {
  auto drafter = MakeDrafter("prompt_lookup", options, kVocab);
  return DraftOne(*drafter, {.tokens = text, .budget = budget});
}

TEST(PromptLookupTest, DraftsWhatFollowedTheSameEnding) {
  const Text text = {10, 11, 12, 13, 14, 99, 10, 11};
  const TokenTree tree = Draft(text, {.max_nodes = 4, .max_depth = 4});
  EXPECT_THAT(tree.tokens, ElementsAre(11, 12, 13, 14, 99));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 1, 2, 3));
}

TEST(PromptLookupTest, PutsTheMostFrequentContinuationFirst) {
  const Text text = {1, 2, 7, 5, 1, 2, 8, 6, 1, 2, 7, 4, 1, 2};
  const TokenTree tree = Draft(text, {.max_nodes = 2, .max_depth = 1});
  EXPECT_THAT(tree.tokens, ElementsAre(2, 7, 8));
}

TEST(PromptLookupTest, ALongerMatchOutweighsAMoreFrequentShorterOne) {
  // After 2: three times 8, once 7; but after 1 2: only 7.
  const Text text = {1, 2, 7, 3, 2, 8, 4, 2, 8, 5, 2, 8, 1, 2};
  const TokenTree tree = Draft(text, {.max_nodes = 2, .max_depth = 1});
  EXPECT_THAT(tree.tokens, ElementsAre(2, 7, 8));
}

TEST(PromptLookupTest, LogProbsAreWittenBellEstimates) {
  // 2 was followed by 7 and 8; 1 2 by 7. Mass: 1/4 each, then halved for the
  // longer match, which gives its own half to 7.
  const Text text = {1, 2, 7, 3, 2, 8, 1, 2};
  const TokenTree tree = Draft(text, {.max_nodes = 9, .max_depth = 1});
  EXPECT_THAT(RootDistribution(tree),
              ElementsAre(Pair(7, DoubleNear(std::log(.5 + .125), 1e-6)),
                          Pair(8, DoubleNear(std::log(.125), 1e-6))));
}

TEST(PromptLookupTest, MinMatchKeepsShortAccidentsOut) {
  const Text text = {5, 2, 8, 1, 2};
  const DraftBudget budget = {.max_nodes = 4, .max_depth = 2};
  EXPECT_EQ(Draft(text, budget, {{"min_match", "2"}}).num_nodes(), 1);
  EXPECT_GT(Draft(text, budget, {{"min_match", "1"}}).num_nodes(), 1);
}

TEST(PromptLookupTest, WidthLimitsTheChildrenOfANode) {
  std::mt19937_64 random(3);
  const Text text = RandomTokens(random, 400, 4);
  const TokenTree tree =
      Draft(text, {.max_nodes = 40, .max_depth = 6}, {{"width", "2"}});
  std::map<int32_t, int> children;
  for (int32_t parent : tree.parents) ++children[parent];
  for (const auto& [parent, count] : children) EXPECT_LE(count, 2);
  EXPECT_EQ(tree.num_nodes(), 41);
}

TEST(PromptLookupTest, AcceptsAlmostEverythingOnRepetitiveText) {
  Text text;
  for (int i = 0; i < 4 * 23; ++i) text.push_back(100 + i % 23);
  auto drafter = MakeDrafter("prompt_lookup", {}, kVocab);
  for (int round = 0; round < 10; ++round) {
    const TokenTree tree = DraftOne(
        *drafter,
        {.tokens = text, .budget = {.max_nodes = 12, .max_depth = 12}});
    const auto next = [](const Text& context) {
      return std::vector<Candidate>{
          {100 + static_cast<TokenId>(context.size()) % 23, 0.0}};
    };
    EXPECT_EQ(AcceptedLength(tree, text, {}, next), 12);
    for (int i = 0; i < 13; ++i) text.push_back(next(text)[0].token);
  }
}

TEST(PromptLookupTest, ForgetsTextBeyondTheWindow) {
  Text text = {1, 2, 3};
  for (int i = 0; i < 16; ++i) text.push_back(500 + i);
  text.insert(text.end(), {1, 2});
  const DraftBudget budget = {.max_nodes = 4, .max_depth = 1};
  EXPECT_EQ(Draft(text, budget, {{"window", "16"}}).num_nodes(), 1);
  EXPECT_EQ(Draft(text, budget, {{"window", "32"}}).num_nodes(), 2);
}

struct Matching {
  int64_t min_match;
  int64_t max_match;
  int64_t max_matches;
};

// Distribution of the token after `context`, by scanning `text` for its endings
// of every length. Drafted tokens of the context are no part of the text.
std::map<TokenId, double> Reference(const Text& text, const Text& context,
                                    const Matching& matching) {
  std::map<TokenId, double> distribution;
  const int64_t size = static_cast<int64_t>(text.size());
  const int64_t longest = std::min<int64_t>(
      matching.max_match, static_cast<int64_t>(context.size()));
  for (int64_t n = matching.min_match; n <= longest; ++n) {
    std::map<TokenId, int> counts;
    int total = 0;
    for (int64_t at = size - 1; at >= n && total < matching.max_matches; --at) {
      if (std::equal(context.end() - n, context.end(), text.begin() + at - n)) {
        ++counts[text[at]];
        ++total;
      }
    }
    if (total == 0) break;
    const double denominator = total + static_cast<double>(counts.size());
    for (auto& [token, p] : distribution) p *= counts.size() / denominator;
    for (const auto& [token, count] : counts)
      distribution[token] += count / denominator;
  }
  return distribution;
}

TEST(PromptLookupTest, EqualsABruteForceReferenceOnRandomTexts) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 150; ++trial) {
    Matching matching;
    matching.min_match = 1 + random() % 2;
    matching.max_match = matching.min_match + random() % 5;
    matching.max_matches = 1 + random() % 40;
    const Text text =
        RandomTokens(random, 1 + random() % 400, 1 + random() % 5);
    // All nodes of three levels, so that none may be missing either.
    const TokenTree tree =
        Draft(text, {.max_nodes = 1000, .max_depth = 3},
              {{"min_match", std::to_string(matching.min_match)},
               {"max_match", std::to_string(matching.max_match)},
               {"max_matches", std::to_string(matching.max_matches)}});
    std::map<Text, double> drafted;
    const auto paths = Paths(tree);
    for (int64_t i = 1; i < tree.num_nodes(); ++i) {
      drafted[paths[i]] = tree.log_probs[i];
    }
    std::map<Text, double> expected;
    std::vector<Text> level = {{}};
    for (int depth = 0; depth < 3; ++depth) {
      std::vector<Text> next_level;
      for (const Text& path : level) {
        Text context = text;
        context.insert(context.end(), path.begin(), path.end());
        for (const auto& [token, p] : Reference(text, context, matching)) {
          Text longer = path;
          longer.push_back(token);
          expected[longer] = (path.empty() ? 0 : expected[path]) + std::log(p);
          next_level.push_back(longer);
        }
      }
      level = next_level;
    }
    ASSERT_EQ(drafted.size(), expected.size());
    for (const auto& [path, log_prob] : expected) {
      ASSERT_TRUE(drafted.count(path));
      EXPECT_NEAR(drafted[path], log_prob, 1e-4);
    }
  }
}

}  // namespace
}  // namespace espalier::drafter::prompt_lookup_drafter_test
