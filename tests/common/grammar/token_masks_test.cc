#include "common/grammar/token_masks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TokenMasks, AllowsNothingAtFirst) {
  const TokenMasks masks(2, 70);
  EXPECT_EQ(masks.num_rows(), 2);
  EXPECT_EQ(masks.CountAllowed(0), 0);
  EXPECT_THAT(masks.Allowed(1), IsEmpty());
}

TEST(TokenMasks, RowsAreSeparate) {
  TokenMasks masks(2, 70);
  masks.Allow(0, 0);
  masks.Allow(0, 31);
  masks.Allow(1, 32);
  masks.Allow(1, 69);
  EXPECT_THAT(masks.Allowed(0), ElementsAre(0, 31));
  EXPECT_THAT(masks.Allowed(1), ElementsAre(32, 69));
  EXPECT_TRUE(masks.Allows(1, 69));
  EXPECT_FALSE(masks.Allows(0, 69));
}

TEST(TokenMasks, BitsAfterTheVocabularyAreNoTokens) {
  TokenMasks masks(1, 33);
  for (uint32_t& word : masks.MutableRow(0)) word = ~0u;
  EXPECT_EQ(masks.CountAllowed(0), 33);
  EXPECT_EQ(masks.Allowed(0).back(), 32);
  EXPECT_FALSE(masks.Allows(0, 33));
  EXPECT_FALSE(masks.Allows(0, -1));
}

}  // namespace
}  // namespace espalier::grammar
