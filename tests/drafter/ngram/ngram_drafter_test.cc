#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "drafter/ngram/ngram_table_builder.h"
#include "drafter/ngram/ngram_table_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Returns the path of a table with the n-grams of `document`.
std::string TableFile(const std::string& name, const NgramTableOptions& options,
                      const std::vector<TokenId>& document) {
  auto builder = NgramTableBuilder::Create(options);
  EXPECT_TRUE(builder.ok() && builder->Add(document).ok());
  const std::string path = ::testing::TempDir() + name + ".ngram";
  EXPECT_TRUE(WriteNgramTable(builder->Build(), path).ok());
  return path;
}

TEST(NgramDrafterTest, BacksOffFromLongToShortContexts) {
  const std::string path = TableFile("back_off", {.order = 3, .vocab_size = 10},
                                     {1, 2, 3, 1, 2, 4, 5, 2, 4});
  auto drafter = MakeDrafter("ngram", {{"table", path}}, 10);
  // Contexts: none: 9 tokens, 5 kinds, 2 thrice, 1 and 4 twice, 3 and 5 once;
  // (2): 3, 4, 4; (5 2): 4.
  const std::vector<TokenId> seen = {5, 2};
  const double none = 1.0 / 14;
  const double after_2 = 1.0 / 5;
  const TokenTree tree = DraftOne(
      *drafter, {.tokens = seen, .budget = {.max_nodes = 9, .max_depth = 1}});
  EXPECT_THAT(
      RootDistribution(tree),
      ElementsAre(
          Pair(1, DoubleNear(std::log(2 * none * .4 * .5), 1e-6)),
          Pair(2, DoubleNear(std::log(3 * none * .4 * .5), 1e-6)),
          Pair(3, DoubleNear(std::log((none * .4 + after_2) * .5), 1e-6)),
          Pair(4, DoubleNear(std::log((2 * none * .4 + 2 * after_2) * .5 + .5),
                             1e-6)),
          Pair(5, DoubleNear(std::log(none * .4 * .5), 1e-6))));
  // A token that the table has never seen: only the frequencies are left.
  const std::vector<TokenId> unseen = {9};
  const TokenTree frequencies = DraftOne(
      *drafter, {.tokens = unseen, .budget = {.max_nodes = 1, .max_depth = 1}});
  EXPECT_THAT(RootDistribution(frequencies),
              ElementsAre(Pair(2, DoubleNear(std::log(3 * none), 1e-6))));
}

TEST(NgramDrafterTest, GrowsTheCompleteTreeOfDepthThreeAndWidthTwo) {
  std::mt19937_64 random(11);
  const std::string path = TableFile("complete", {.order = 2, .vocab_size = 65},
                                     RandomTokens(random, 5000, 65));
  auto drafter = MakeDrafter("ngram", {{"table", path}, {"width", "2"}}, 65);
  const std::vector<TokenId> tokens = {7};
  const TokenTree tree =
      DraftOne(*drafter,
               {.tokens = tokens, .budget = {.max_nodes = 14, .max_depth = 3}});
  ASSERT_EQ(tree.num_nodes(), 15);
  std::map<int32_t, int> children;
  for (int32_t parent : tree.parents) ++children[parent];
  const std::vector<int32_t> depths = tree.Depths();
  for (int32_t i = 0; i < tree.num_nodes(); ++i) {
    EXPECT_EQ(children[i], depths[i] < 3 ? 2 : 0);
  }
}

TEST(NgramDrafterTest, RefusesTablesThatDoNotFitTheTarget) {
  const std::string path = TableFile(
      "fit", {.vocab_size = 5, .tokenizer_fingerprint = 77}, {1, 2, 3});
  const auto create = [](const std::map<std::string, std::string>& options,
                         int64_t vocab_size, uint64_t fingerprint) {
    return std::string(NewNgramDrafter({.options = options,
                                        .vocab_size = vocab_size,
                                        .tokenizer_fingerprint = fingerprint})
                           .status()
                           .message());
  };
  EXPECT_EQ(create({{"table", path}}, 5, 77), "");
  EXPECT_EQ(create({{"table", path}}, 5, 0), "");
  EXPECT_THAT(create({{"table", path}}, 6, 77),
              HasSubstr("a vocabulary of 5 tokens, the target has 6"));
  EXPECT_THAT(create({{"table", path}}, 5, 78), HasSubstr("tokenizer"));
  EXPECT_THAT(create({{"table", "/nonexistent"}}, 5, 77),
              HasSubstr("/nonexistent"));
  EXPECT_THAT(create({}, 5, 77), HasSubstr("option table: is required"));
}

}  // namespace
}  // namespace espalier::drafter
