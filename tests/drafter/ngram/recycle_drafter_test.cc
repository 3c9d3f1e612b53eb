#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::recycle_drafter_test {
namespace {

using ::testing::ElementsAre;

using Text = std::vector<TokenId>;

constexpr int64_t kVocab = 50;
constexpr DraftBudget kBudget = {.max_nodes = 6, .max_depth = 3};

// Returns a target whose distribution depends on the last two tokens: a few
// tokens have most of the mass.
std::vector<Candidate> Target(absl::Span<const TokenId> text) {
  std::mt19937_64 random(1000 * (text.size() > 1 ? text[text.size() - 2] : 0) +
                         text.back());
  std::vector<double> weights(kVocab);
  double sum = 0;
  for (double& weight : weights) {
    weight = std::exp(static_cast<double>(random() % 1000) / 120);
    sum += weight;
  }
  std::vector<Candidate> distribution;
  for (TokenId token = 0; token < kVocab; ++token) {
    distribution.push_back(
        {.token = token, .log_prob = std::log(weights[token] / sum)});
  }
  std::sort(distribution.begin(), distribution.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.log_prob > b.log_prob;
            });
  return distribution;
}

// Returns the target's rows at all positions of a text from the second on.
TokenRanks RowsOf(const Text& text, int32_t top) {
  TokenRanks ranks = {.top = top};
  for (size_t i = 1; i < text.size(); ++i) {
    ranks.contexts.insert(ranks.contexts.end(), {text[i - 1], text[i]});
    const auto row = Target(absl::MakeConstSpan(text).first(i + 1));
    for (int32_t j = 0; j < top; ++j) {
      ranks.tokens.push_back(row[j].token);
      ranks.log_probs.push_back(static_cast<float>(row[j].log_prob));
    }
  }
  return ranks;
}

class RecycleDrafterTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Drafter> Make() {
    return MakeDrafter("recycle", {}, kVocab);
  }

  TokenTree Draft(Drafter& drafter, const Text& text, const TokenRanks* ranks,
                  absl::string_view salt = "", SamplingParams sampling = {}) {
    return DraftOne(drafter, SequenceView{.id = {1, 1},
                                          .tokens = text,
                                          .sampling = sampling,
                                          .budget = kBudget,
                                          .cache_salt = salt,
                                          .ranks = ranks});
  }
};

TEST_F(RecycleDrafterTest, SaysWhatItWants) {
  EXPECT_EQ(Make()->ranks(),
            (RankNeed{.greedy = 4, .sampled = 64, .prompt_rows = 256}));
  EXPECT_EQ(MakeDrafter("recycle", {{"prompt_rows", "0"}}, kVocab)
                ->ranks()
                .prompt_rows,
            0);
}

TEST_F(RecycleDrafterTest, DraftsNothingBeforeItHasSeenRows) {
  auto drafter = Make();
  EXPECT_EQ(Draft(*drafter, {1, 2, 3}, nullptr).num_nodes(), 1);
}

TEST_F(RecycleDrafterTest, DraftsTheTargetsOwnContinuations) {
  auto drafter = Make();
  const Text text = {1, 2};
  const TokenRanks rows = RowsOf({1, 2}, 4);
  const TokenTree tree = Draft(*drafter, text, &rows);
  EXPECT_THAT(std::vector(tree.tokens.begin() + 1, tree.tokens.end()),
              ElementsAre(rows.tokens[0], rows.tokens[1], rows.tokens[2],
                          rows.tokens[3]));
}

// Text of the target itself is predicted, at any temperature, the better the
// more rows were seen.
TEST_F(RecycleDrafterTest, AcceptsMoreOnceTheTableIsWarm) {
  for (float temperature : {0.0f, 1.0f}) {
    auto drafter = Make();
    std::mt19937_64 random(61);
    const int32_t top = temperature == 0 ? 4 : 50;
    const auto accepted = [&](int rounds) {
      int64_t sum = 0;
      for (int i = 0; i < rounds; ++i) {
        const SamplingParams sampling = {.temperature = temperature,
                                         .seed = random()};
        Text text = RandomTokens(random, 2, 8);
        for (int t = 0; t < 20; ++t) {
          text.push_back(
              EmittedToken(sampling, std::ssize(text), Target(text)));
        }
        const TokenRanks rows = RowsOf(text, top);
        const TokenTree tree = Draft(*drafter, text, &rows, "", sampling);
        sum += AcceptedLength(tree, text, sampling,
                              [](const Text& t) { return Target(t); });
      }
      return sum;
    };
    accepted(300);
    EXPECT_GT(accepted(100), temperature == 0 ? 150 : 60) << temperature;
  }
}

// Rows of one tenant change nothing of what another gets.
TEST_F(RecycleDrafterTest, TenantsLearnNothingOfEachOther) {
  std::mt19937_64 random(62);
  auto shared = Make();
  auto alone = Make();
  int64_t nodes = 0;
  for (int i = 0; i < 200; ++i) {
    const Text others = RandomTokens(random, 20, 12);
    const TokenRanks their_rows = RowsOf(others, 8);
    Draft(*shared, others, &their_rows, i % 2 == 0 ? "other" : "");
    const Text text = RandomTokens(random, 4, 12);
    const TokenRanks rows = RowsOf(text, 8);
    const SamplingParams sampling = {.temperature = 0.5f * (i % 3),
                                     .seed = random()};
    const TokenTree tree = Draft(*shared, text, &rows, "mine", sampling);
    const TokenTree expected = Draft(*alone, text, &rows, "mine", sampling);
    EXPECT_EQ(tree.tokens, expected.tokens);
    EXPECT_EQ(tree.log_probs, expected.log_probs);
    nodes += tree.num_nodes() - 1;
  }
  EXPECT_GT(nodes, 200);
}

}  // namespace
}  // namespace espalier::drafter::recycle_drafter_test
