// Features of language models.

#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "tests/common/model/language_model_fixture.h"
#include "tests/common/model/reference_model.h"

namespace espalier {
namespace {

TEST_P(ExactLanguageModelTest, FeaturesAgreeWithTheDefinitionInFloat64) {
  // The tolerance is that of the logits.
  const double tolerance = GetParam().backend == "native" ? 5e-4 : 1e-4;
  std::mt19937 random(11);
  const Tree chain{.tokens = RandomTokens(random, 40), .parents = Chain(40)};
  const ModelConfig& config = model_->info().config;
  const auto expected =
      testing::ReferenceStates(config, tensors_, chain.tokens);
  std::vector<int32_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const Rows rows = Features(AllRows(model_->NewSequence(), chain), all);
  ASSERT_EQ(rows.size(), 40u);
  for (size_t row = 0; row < rows.size(); ++row) {
    ASSERT_EQ(expected[row].size(), 4u);
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const double value =
          expected[row][i / config.hidden_size][i % config.hidden_size];
      const double rounding = std::abs(value) / 256;  // bf16
      ASSERT_NEAR(rows[row][i], value, tolerance + rounding)
          << "row " << row << ", tap " << i / config.hidden_size;
    }
  }
}

// Like logits, features keep their bits: neither the tree nor other sequences
// change a bit.
TEST_P(LanguageModelTest, FeaturesOfTreeRowsAreWhatDecodingTheirPathsGives) {
  std::mt19937 random(12);
  const std::vector<TokenId> prompt = RandomTokens(random, 37);
  const Tree tree = RandomTree(random, 25), other = RandomTree(random, 9);
  const CacheId cache = Started(prompt);
  const CacheId beside = Started({5}), alone = Started(prompt);
  for (int32_t row = 0; row < 25; row += 4) {
    const std::vector<int32_t> path = PathTo(tree, row);
    const Rows rows = Features(AllRows(cache, tree), path, kAllTaps,
                               {AllRows(beside, other)});
    std::vector<TokenId> tokens;
    for (int32_t node : path) tokens.push_back(tree.tokens[node]);
    EXPECT_TRUE(Same(rows.back(), DecodeFeatures(alone, tokens)))
        << "row " << row;
    model_->Truncate(alone, std::ssize(prompt));
  }
}

TEST_P(LanguageModelTest, FeaturesAreTheTapsThatAreWanted) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11});
  const int64_t hidden = model_->info().config.hidden_size;
  const Rows all = Features(AllRows(cache, tree), {0, 2});
  for (int32_t tap : kAllTaps) {
    SequenceRows rows = AllRows(cache, tree);
    rows.num_logit_rows = tap % 2;
    const Rows one = Features(rows, {0, 2}, {&tap, 1});
    for (size_t row = 0; row < 2; ++row) {
      EXPECT_EQ(one[row],
                std::vector<float>(all[row].begin() + tap * hidden,
                                   all[row].begin() + (tap + 1) * hidden));
    }
  }
}

TEST_P(LanguageModelTest, LogitsAreTheSameWithFeatures) {
  std::mt19937 random(13);
  const Tree tree = RandomTree(random, 12);
  const CacheId cache = Started({1, 2, 3});
  const Rows expected = Forward({AllRows(cache, tree)});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  EXPECT_TRUE(Same(Forward({rows}), expected));
}

TEST_P(LanguageModelTest, FeaturesStayUntilTheSequenceKeepsItsRows) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11}), other = Started({12});
  const Rows expected = Features(AllRows(cache, tree), {0, 2});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  Forward({rows});
  rows.cache = other;
  rows.taps = absl::MakeConstSpan(kAllTaps).first(1);
  Forward({rows});
  EXPECT_EQ(KeepFeatures(cache, {0, 2}), expected);
  EXPECT_EQ(KeepFeatures(other, {0, 1}, /*taps=*/1).size(), 2u);
}

TEST_P(LanguageModelTest, KeepWritesFeaturesOfTheRightSizeOnly) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11});
  const Rows expected = Features(AllRows(cache, tree), {0, 2});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  Forward({rows});
  std::vector<uint16_t> room(2 * 4 * model_->info().config.hidden_size + 1);
  for (const size_t size : {room.size(), room.size() - 2}) {
    const absl::Status kept =
        model_->Keep(cache, {0, 2}, absl::MakeSpan(room).first(size));
    EXPECT_EQ(kept.code(), absl::StatusCode::kInvalidArgument) << kept;
    EXPECT_EQ(model_->Length(cache), 2);
  }
  EXPECT_EQ(KeepFeatures(cache, {0, 2}), expected);
  Forward({AllRows(cache, tree)});  // takes none
  EXPECT_FALSE(model_->Keep(cache, {0}, absl::MakeSpan(room)).ok());
  EXPECT_TRUE(model_->Keep(cache, {0}, {}).ok());
}

}  // namespace
}  // namespace espalier
