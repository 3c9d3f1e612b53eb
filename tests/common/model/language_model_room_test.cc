// K/V room of language models: the pool and the context.

#include <algorithm>
#include <random>

#include "common/base/available_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/language_model_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

TEST_P(LanguageModelTest, ReleaseReturnsTheRoomToThePool) {
  EXPECT_EQ(model_->kv_usage().used_tokens, 0);
  std::mt19937 random(7);
  std::vector<CacheId> caches;
  for (int i = 1; i < 5; ++i) {
    caches.push_back(Started(RandomTokens(random, 60 * i)));
    EXPECT_GE(model_->kv_usage().used_tokens, 60 * i);
  }
  for (CacheId cache : caches) model_->Release(cache);
  EXPECT_EQ(model_->kv_usage().used_tokens, 0);
}

TEST_P(LanguageModelTest, FullPoolIsResourceExhaustedAndRecovers) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 130 * token_bytes});
  const int64_t groups = model->info().kv_groups.count();
  EXPECT_EQ(model->kv_usage().total_tokens / groups, 128);  // whole blocks
  const CacheId first = Started(*model, std::vector<TokenId>(64, 1));
  const CacheId second = model->NewSequence();
  const std::vector<TokenId> tokens(70, 2);
  const auto full = Prefill(*model, second, tokens, 256);
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.status().message(), HasSubstr("the K/V pool"));
  EXPECT_EQ(model->Length(second), 0);
  model->Release(first);
  EXPECT_TRUE(Prefill(*model, second, tokens, 256).ok());
}

TEST_P(LanguageModelTest, TheContextIsNoLongerThanThePool) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 80 * token_bytes});
  EXPECT_EQ(model->info().max_context, 64);
  EXPECT_LE(model->info().max_rows, 64);
  Started(*model, std::vector<TokenId>(64, 1));
  EXPECT_EQ(model->kv_usage().used_tokens,
            64 * model->info().kv_groups.count());
}

// A text of many windows, decoded with other sequences that take what it gives
// back, has the logits of one pass over the whole text, also after it was
// shared and in the rows of a tree.
TEST_P(LanguageModelTest, PagesOfPastWindowsAreGivenBackAndMissedByNoRow) {
  const KvGroups& groups = model_->info().kv_groups;
  const int64_t length = is_emulated() ? 70 : 200;
  std::mt19937 random(13);
  const std::vector<TokenId> text = RandomTokens(random, length);
  const CacheId whole = model_->NewSequence();
  ASSERT_TRUE(Prefill(*model_, whole, text, length).ok());
  const CacheId step_by_step = Started({text[0]});
  const int64_t used = model_->kv_usage().used_tokens;
  for (int64_t i = 1; i < length; ++i) {
    Decode(step_by_step, {text[i]});
    model_->Share(step_by_step, absl::MakeConstSpan(text).first(i + 1), "");
    if (i % 40 == 0) model_->Release(Started(RandomTokens(random, 50)));
  }
  EXPECT_LE(model_->kv_usage().used_tokens - used, groups.RoomFor(length, 1));
  const CacheId shared = model_->NewSequence();
  model_->Share(shared, text, "");
  GoTo(shared, text, length);

  const Tree tree = RandomTree(random, 30);
  const Rows expected = Forward({AllRows(whole, tree)});
  EXPECT_TRUE(Same(Forward({AllRows(step_by_step, tree)}), expected));
  EXPECT_TRUE(Same(Forward({AllRows(shared, tree)}), expected));
}

TEST_P(ExactLanguageModelTest, ByDefaultThePoolHoldsAShareOfTheMemory) {
  const ModelInfo& info = model_->info();
  const int64_t pool =
      info.kv_groups.TokensIn(model_->kv_usage().total_tokens) *
      info.kv_bytes_per_token;
  EXPECT_GT(pool, AvailableMemory() / 10);
  EXPECT_LT(pool, AvailableMemory());
}

// The numbers by which the engine divides the pool.
TEST_P(LanguageModelTest, APassFindsRoomWhereTheMissingIsFree) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 320 * token_bytes});
  const ModelInfo& info = model->info();
  const int64_t total = model->kv_usage().total_tokens;
  std::vector<CacheId> caches = {Started(*model, std::vector<TokenId>(64, 1)),
                                 Started(*model, std::vector<TokenId>(60, 2)),
                                 model->NewSequence()};
  EXPECT_EQ(model->HeldRoom(caches[0]), info.kv_groups.RoomOfPrefix(64));
  EXPECT_EQ(model->HeldRoom(caches[2]), 0);
  for (int64_t rows = 1;; rows += is_emulated() ? 16 : 3) {
    Tree tree;
    for (int64_t i = 0; i < rows; ++i) {
      tree.tokens.push_back(3);
      tree.parents.push_back(kPrefixParent);
    }
    std::vector<SequenceRows> batch;
    int64_t missing = 0;
    for (CacheId cache : caches) {
      batch.push_back(AllRows(cache, tree));
      missing += std::max<int64_t>(
          info.kv_groups.RoomFor(model->Length(cache) + rows, rows) -
              model->HeldRoom(cache),
          0);
    }
    const bool fits = missing <= total - model->kv_usage().used_tokens;
    const bool found = model->Forward(batch).ok();
    // In a window, the room that a pass needs is a bound.
    ASSERT_TRUE(info.kv_groups.windowed > 0 ? found || !fits : found == fits)
        << rows << " rows";
    if (!found) break;
    for (CacheId cache : caches) ASSERT_TRUE(model->Keep(cache, {}, {}).ok());
  }
  int64_t held = 0;
  for (CacheId cache : caches) held += model->HeldRoom(cache);
  EXPECT_EQ(held, model->kv_usage().used_tokens);
}

TEST_P(LanguageModelTest, ContextLimitIsOutOfRange) {
  auto model = Load({.folder = folder_, .threads = 1, .max_context = 20});
  EXPECT_EQ(model->info().max_context, 20);
  const CacheId cache = Started(*model, std::vector<TokenId>(20, 1));
  const auto over = Prefill(*model, cache, {1}, 1);
  EXPECT_EQ(over.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(over.status().message(), HasSubstr("20 tokens"));
}

}  // namespace
}  // namespace espalier
