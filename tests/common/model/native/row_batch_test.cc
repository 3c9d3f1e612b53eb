#include "common/model/native/row_batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

//   prefix (5) - 0 - 1 - 3
//                  \ 2
//              - 4
TEST(RowTree, RowsSeeTheirAncestorsAtPositionsByDepth) {
  const std::vector<int32_t> parents = {-1, 0, 0, 1, -1};
  const RowTree tree = BuildRowTree(parents, /*prefix=*/5);
  EXPECT_THAT(tree.positions, ElementsAre(5, 6, 6, 7, 5));
  EXPECT_THAT(tree.AncestorsOf(0), ElementsAre(0));
  EXPECT_THAT(tree.AncestorsOf(2), ElementsAre(0, 2));
  EXPECT_THAT(tree.AncestorsOf(3), ElementsAre(0, 1, 3));
  EXPECT_THAT(tree.AncestorsOf(4), ElementsAre(4));
}

TEST(CheckRows, NamesTheFieldAndTheLimit) {
  const RowLimits limits = {
      .max_rows = 4, .max_chain_rows = 4, .max_context = 6, .vocab_size = 10};
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<int32_t> parents = {-1, 0, 1};
  const SequenceRows rows = {
      .cache = 1, .tokens = tokens, .parents = parents, .num_logit_rows = 3};
  EXPECT_TRUE(CheckRows(rows, /*prefix=*/3, limits).ok());
  EXPECT_EQ(CheckRows(rows, /*prefix=*/4, limits).code(),
            absl::StatusCode::kOutOfRange);
  RowLimits few_rows = limits, few_tokens = limits;
  few_rows.max_chain_rows = 2;
  EXPECT_THAT(CheckRows(rows, 0, few_rows).message(), HasSubstr("1 to 2 rows"));
  few_tokens.vocab_size = 3;
  EXPECT_THAT(CheckRows(rows, 0, few_tokens).message(),
              HasSubstr("token 3 of row 2"));
}

TEST(CheckRows, ChainsMayBeLongerThanTrees) {
  const RowLimits limits = {
      .max_rows = 2, .max_chain_rows = 3, .max_context = 6, .vocab_size = 10};
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<int32_t> chain = {-1, 0, 1}, tree = {-1, 0, 0};
  EXPECT_TRUE(CheckRows({.tokens = tokens, .parents = chain}, 0, limits).ok());
  EXPECT_THAT(
      CheckRows({.tokens = tokens, .parents = tree}, 0, limits).message(),
      HasSubstr("1 to 2 rows"));
}

TEST(CheckPath, TakesAPathFromThePrefixDown) {
  const std::vector<int32_t> parents = {-1, 0, 0, 1, -1};
  EXPECT_TRUE(CheckPath(parents, {}).ok());
  EXPECT_TRUE(CheckPath(parents, {0, 1, 3}).ok());
  EXPECT_TRUE(CheckPath(parents, {4}).ok());
  EXPECT_FALSE(CheckPath(parents, {1, 3}).ok());
  EXPECT_FALSE(CheckPath(parents, {0, 3}).ok());
  EXPECT_FALSE(CheckPath(parents, {0, 1, 2}).ok());
  EXPECT_FALSE(CheckPath(parents, {5}).ok());
}

}  // namespace
}  // namespace espalier
