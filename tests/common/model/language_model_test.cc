#include "common/model/language_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/common/model/language_model_fixture.h"
#include "tests/common/model/reference_model.h"

namespace espalier {
namespace {

INSTANTIATE_TEST_SUITE_P(Subjects, LanguageModelTest,
                         ::testing::ValuesIn(AllSubjects()), SubjectName);

INSTANTIATE_TEST_SUITE_P(
    Subjects, ExactLanguageModelTest,
    ::testing::ValuesIn(SubjectsIn({ComputeDType::kFloat32})), SubjectName);

TEST_P(ExactLanguageModelTest, AgreesWithTheDefinitionInFloat64) {
  // Logits are near 10; a split operand of the native kernels has 16 bits.
  const double tolerance = GetParam().backend == "native" ? 5e-4 : 1e-4;
  std::mt19937 random(1);
  const std::vector<TokenId> tokens = RandomTokens(random, 40);
  const auto expected =
      testing::ReferenceLogits(model_->info().config, tensors_, tokens);
  Tree chain{.tokens = tokens, .parents = std::vector<int32_t>(40)};
  std::iota(chain.parents.begin(), chain.parents.end(), kPrefixParent);
  const Rows rows = Forward({AllRows(model_->NewSequence(), chain)});
  ASSERT_EQ(rows.size(), 40u);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t token = 0; token < rows[row].size(); ++token) {
      ASSERT_NEAR(rows[row][token], expected[row][token], tolerance)
          << "row " << row << ", token " << token;
    }
  }
}

// The text of a tree must not depend on the tree: this is bit for bit.
TEST_P(LanguageModelTest, TreeRowsAreWhatDecodingTheirPathsGives) {
  std::mt19937 random(2);
  for (int32_t size : {1, 2, 3, 7, 12, 25, 64}) {
    if (size == 25 && is_emulated()) continue;
    const std::vector<TokenId> prompt = RandomTokens(random, 1 + random() % 90);
    const Tree tree = RandomTree(random, size);
    const CacheId cache = Started(prompt);
    const Rows rows = Forward({AllRows(cache, tree)});
    ASSERT_EQ(rows.size(), tree.tokens.size());
    const CacheId alone = Started(prompt);
    for (int32_t row = 0; row < size; row += 1 + size / 8) {
      std::vector<TokenId> path;
      for (int32_t node : PathTo(tree, row)) path.push_back(tree.tokens[node]);
      EXPECT_TRUE(Same(rows[row], Decode(alone, path)))
          << "row " << row << " of " << size;
      model_->Truncate(alone, std::ssize(prompt));
    }
    model_->Release(alone);
    model_->Release(cache);
  }
}

TEST_P(LanguageModelTest, KeptPathEqualsAFreshPrefillOfItsTokens) {
  std::mt19937 random(3);
  std::vector<TokenId> tokens = RandomTokens(random, 20);
  const CacheId cache = Started(tokens);
  for (int round = 0; round < 6; ++round) {
    const Tree tree = RandomTree(random, 24);
    Forward({AllRows(cache, tree)});
    const std::vector<int32_t> path = PathTo(tree, 23 - round);
    ASSERT_TRUE(model_->Keep(cache, path, {}).ok());
    for (int32_t row : path) tokens.push_back(tree.tokens[row]);
    EXPECT_EQ(model_->Length(cache), static_cast<int64_t>(tokens.size()));
  }
  const CacheId fresh = Started(tokens);
  EXPECT_TRUE(Same(Decode(cache, {65, 66}), Decode(fresh, {65, 66})));
}

TEST_P(LanguageModelTest, PrefillInChunksEqualsWholePrefill) {
  std::mt19937 random(4);
  const std::vector<TokenId> tokens = RandomTokens(random, 150);
  const CacheId whole = Started(*model_, tokens, 256);
  const std::vector<float> expected = Decode(whole, {7});
  for (int64_t chunk : {1, 5, 16, 64, 149}) {
    if (chunk == 1 && is_emulated()) continue;
    const CacheId cache = Started(*model_, tokens, chunk);
    EXPECT_TRUE(Same(Decode(cache, {7}), expected)) << "chunks of " << chunk;
    model_->Release(cache);
  }
}

TEST_P(LanguageModelTest, SequencesPackedInOnePassGetWhatEachGetsAlone) {
  std::mt19937 random(5);
  std::vector<CacheId> caches;
  std::vector<Tree> trees;
  std::vector<SequenceRows> batch;
  Rows expected;
  for (int32_t i = 0; i < 5; ++i) {
    caches.push_back(Started(RandomTokens(random, 1 + 17 * i)));
    trees.push_back(RandomTree(random, 1 + 6 * i));
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const SequenceRows rows = AllRows(caches[i], trees[i]);
    for (auto& row : Forward({rows})) expected.push_back(row);
    batch.push_back(rows);
  }
  EXPECT_TRUE(Same(Forward(batch), expected));
}

TEST_P(LanguageModelTest, ReturnsTheLastRowsOfEverySequenceInOrder) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId a = Started({10, 11}), b = Started({12});
  const Rows all = Forward({AllRows(a, tree), AllRows(b, tree)});
  SequenceRows some = AllRows(a, tree), none = AllRows(b, tree);
  some.num_logit_rows = 2;
  none.num_logit_rows = 0;
  EXPECT_TRUE(Same(Forward({none, some}), Rows{all[1], all[2]}));
  EXPECT_TRUE(Forward({none}).empty());
}

// The numbers of a ranking are those of the whole row up to the rounding of its
// sum; the draw is the same.
TEST_P(LanguageModelTest, RanksBesideADrawAreThoseOfTheRows) {
  std::mt19937 random(7);
  const Tree tree = RandomTree(random, 5);
  const CacheId cache = Started({10, 11, 12});
  const Rows whole = Forward({AllRows(cache, tree)});
  const RankRequest ranks = {.top_k = 6};
  const LogitUse uses[] = {
      AnyUse{}, DrawRequest{}, DrawRequest{.temperature = 1, .seed = 8},
      FilteredDrawRequest{.draw = {.temperature = 1, .seed = 8}, .top_k = 9}};
  for (const LogitUse& use : uses) {
    SequenceRows rows = AllRows(cache, tree);
    rows.num_logit_rows = 4;
    rows.use = use;
    rows.ranks = ranks;
    const auto logits = model_->Forward({&rows, 1});
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (int64_t row = 0; row < 4; ++row) {
      const auto ranking = (*logits)->Rank(row, ranks);
      ASSERT_TRUE(ranking.ok()) << ranking.status();
      const auto expected = RankFrom(whole[row + 1], ranks);
      EXPECT_EQ(ranking->top, expected->top);
      EXPECT_NEAR(ranking->log_sum_exp, expected->log_sum_exp, 1e-4);
      if (const auto* draw = std::get_if<DrawRequest>(&use)) {
        const int64_t position =
            4 + std::ssize(PathTo(tree, static_cast<int32_t>(row + 1))) - 1;
        EXPECT_EQ((*logits)->Draw(row, *draw, position)->token,
                  DrawFrom(whole[row + 1], *draw, position)->token);
      }
    }
  }
}

TEST_P(LanguageModelTest, RowsOfAnEarlierPassLeaveNoTrace) {
  std::mt19937 random(6);
  const Tree small = RandomTree(random, 3);
  const CacheId fresh = Started({1, 2, 3});
  const Rows expected = Forward({AllRows(fresh, small)});
  const CacheId used = Started({1, 2, 3});
  Forward({AllRows(used, RandomTree(random, 60))});
  EXPECT_TRUE(Same(Forward({AllRows(used, small)}), expected));
  ASSERT_TRUE(model_->Keep(used, {}, {}).ok());
  EXPECT_TRUE(Same(Forward({AllRows(used, small)}), expected));
}

TEST_P(LanguageModelTest, TruncateGoesBackToAnEarlierPosition) {
  const CacheId cache = Started({1, 2, 3, 4, 5});
  model_->Truncate(cache, 2);
  EXPECT_EQ(model_->Length(cache), 2);
  const CacheId fresh = Started({1, 2});
  EXPECT_TRUE(Same(Decode(cache, {9, 8}), Decode(fresh, {9, 8})));
}

TEST_P(LanguageModelTest, GreedyTextOfTheTinyModelVaries) {
  const CacheId cache = Started({72, 105});
  std::set<TokenId> seen;
  TokenId next = 33;
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> row = Decode(cache, {next});
    next = std::max_element(row.begin(), row.end()) - row.begin();
    seen.insert(next);
  }
  EXPECT_GE(seen.size(), 8u);
}

TEST_P(LanguageModelTest, MalformedRowsAreInvalidArgument) {
  const CacheId cache = Started({1});
  auto code = [&](const SequenceRows& rows) {
    return model_->Forward({&rows, 1}).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(AllRows(cache, {{}, {}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1, 2}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{-1}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{258}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1}, {0}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1, 2}, {1, -1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1}, {-2}})), kInvalid);
  const Tree tree{.tokens = {1}, .parents = {-1}};
  SequenceRows rows = AllRows(cache, tree);
  rows.num_logit_rows = 2;
  EXPECT_EQ(code(rows), kInvalid);
  rows = AllRows(cache, tree);
  for (const std::vector<int32_t>& taps :
       {std::vector<int32_t>{-1, 0}, {1, 1}, {2, 1}, {3, 4}}) {
    rows.taps = taps;
    EXPECT_EQ(code(rows), kInvalid);
  }
  const std::vector<SequenceRows> twice(2, AllRows(cache, tree));
  EXPECT_EQ(model_->Forward(twice).status().code(), kInvalid);
  EXPECT_EQ(model_->Forward({}).status().code(), kInvalid);
  EXPECT_EQ(code(AllRows(cache, tree)), absl::StatusCode::kOk);
}

TEST_P(LanguageModelTest, KeepTakesOnlyAPathOfTheLastPass) {
  const CacheId cache = Started({1});
  EXPECT_FALSE(model_->Keep(cache, {0}, {}).ok());  // no uncommitted rows
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  Forward({AllRows(cache, tree)});
  EXPECT_FALSE(model_->Keep(cache, {1}, {}).ok());        // skips row 0
  EXPECT_FALSE(model_->Keep(cache, {0, 1, 2}, {}).ok());  // 2 is a sibling
  EXPECT_FALSE(model_->Keep(cache, {0, 3}, {}).ok());
  EXPECT_FALSE(model_->Keep(cache, {-1}, {}).ok());
  EXPECT_EQ(model_->Length(cache), 1);
  EXPECT_TRUE(model_->Keep(cache, {0, 2}, {}).ok());
  EXPECT_EQ(model_->Length(cache), 3);
  EXPECT_FALSE(model_->Keep(cache, {0}, {}).ok());  // already kept
}

TEST_P(ExactLanguageModelTest, RoundedTypesStayCloseToFloat32) {
  struct Bound {
    ComputeDType dtype;
    double error;
  };
  std::mt19937 random(8);
  const Tree tree = RandomTree(random, 20);
  const std::vector<TokenId> prompt = RandomTokens(random, 30);
  const Rows expected = Forward({AllRows(Started(prompt), tree)});
  for (const auto& [dtype, bound] :
       {Bound{ComputeDType::kBFloat16, 0.05}, Bound{ComputeDType::kInt8, 0.1},
        Bound{ComputeDType::kInt4, 0.5}}) {
    if (GetParam().backend != "native" && dtype != ComputeDType::kBFloat16) {
      continue;
    }
    auto rounded =
        Load({.folder = folder_, .compute_dtype = dtype, .threads = 1});
    const SequenceRows rows = AllRows(Started(*rounded, prompt), tree);
    auto logits = rounded->Forward({&rows, 1});
    ASSERT_TRUE(logits.ok()) << logits.status();
    const Rows got = Copy(**logits);
    std::vector<double> errors;
    for (size_t row = 0; row < got.size(); ++row) {
      double error = 0, size = 0;
      for (size_t i = 0; i < got[row].size(); ++i) {
        error += std::pow(got[row][i] - expected[row][i], 2);
        size += std::pow(expected[row][i], 2);
      }
      errors.push_back(std::sqrt(error / size));
    }
    std::sort(errors.begin(), errors.end());
    // Rounding sends some rows to other experts.
    const bool mixture = !model_->info().config.layers.front().is_dense();
    EXPECT_LT(mixture ? errors[errors.size() / 2] : errors.back(), bound)
        << NameOf(dtype);
  }
}

// Text, logits and features after shared K/V are those after a sequence's own.
TEST_P(LanguageModelTest, SharedKvIsThatOfItsOwnPasses) {
  std::mt19937 random(11);
  const std::vector<TokenId> shared = RandomTokens(random, 70);
  const CacheId first = Started(shared);
  EXPECT_EQ(model_->Share(first, shared, ""), 0);

  std::vector<TokenId> text = shared;
  for (TokenId token : RandomTokens(random, 10)) text.push_back(token);
  const CacheId plain = Started(text);
  const CacheId second = model_->NewSequence();
  const int64_t gained = model_->Share(second, text, "");
  EXPECT_EQ(gained, GetParam().backend == "aten" ? 0 : 64);
  EXPECT_EQ(model_->Length(second), gained);
  EXPECT_EQ(model_->SharedRoom(second),
            model_->info().kv_groups.RoomOfPrefix(gained));
  const auto rest = absl::MakeConstSpan(text).subspan(gained);
  ASSERT_TRUE(Prefill(*model_, second, rest, 3).ok());

  model_->Release(first);  // the other goes on
  const Tree tree = RandomTree(random, 9);
  EXPECT_TRUE(
      Same(Forward({AllRows(second, tree)}), Forward({AllRows(plain, tree)})));
  const std::vector<int32_t> path = PathTo(tree, 8);
  EXPECT_TRUE(Same(Features(AllRows(second, tree), path),
                   Features(AllRows(plain, tree), path)));
}

// A page that another holds is copied before it is written again.
TEST_P(LanguageModelTest, ASharedPageStaysWhenASequenceIsCutBackIntoIt) {
  std::mt19937 random(12);
  const std::vector<TokenId> text = RandomTokens(random, 66);
  const CacheId first = Started(text);
  model_->Share(first, text, "");
  const CacheId second = Started(text);
  model_->Share(second, text, "");
  const std::vector<float> expected = Decode(first, {65});

  GoTo(second, text, 40);
  const CacheId fresh =
      Started(std::vector<TokenId>(text.begin(), text.begin() + 40));
  const std::vector<TokenId> other(26, 9);
  EXPECT_TRUE(Same(Decode(second, other), Decode(fresh, other)));
  GoTo(first, text, 66);
  EXPECT_TRUE(Same(Decode(first, {65}), expected));
}

TEST_P(LanguageModelTest, SequencesOfDifferentSaltsShareNothing) {
  const std::vector<TokenId> text(70, 1);
  const CacheId first = Started(text);
  model_->Share(first, text, "one");
  const CacheId second = model_->NewSequence();
  EXPECT_EQ(model_->Share(second, text, "two"), 0);
  EXPECT_EQ(model_->Share(second, text, ""), 0);
}

}  // namespace
}  // namespace espalier
