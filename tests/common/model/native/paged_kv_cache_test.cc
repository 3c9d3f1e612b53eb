#include "common/model/native/paged_kv_cache.h"

#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

const KvPageShape kShape = {
    .layers = {.per_group = 2,
               .groups = {.block_tokens = nn::kPageTokens},
               .places = {{0, 0}, {0, 1}}},
    .num_kv_heads = 3,
    .head_dim = 5};

class PagedKvCacheTest : public ::testing::Test {
 protected:
  // Returns the value that element `i` of a token has in a layer and head.
  static float Value(int64_t token, int64_t layer, int64_t head, int64_t i) {
    return static_cast<float>(((token * 2 + layer) * 3 + head) * 5 + i);
  }

  static void Write(PagedKvCache& cache, int64_t row, int64_t token) {
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (int64_t head = 0; head < 3; ++head) {
        std::vector<float> key(5), value(5);
        for (int64_t i = 0; i < 5; ++i) {
          key[i] = Value(token, layer, head, i);
          value[i] = -key[i];
        }
        cache.WriteRow(layer, head, row,
                       {.key = key.data(), .value = value.data()});
      }
    }
  }

  static void ExpectToken(const PagedKvCache& cache, int64_t slot,
                          int64_t token) {
    const float* page = cache.pages(0)[slot / nn::kPageTokens];
    const int64_t index = slot % nn::kPageTokens;
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (int64_t head = 0; head < 3; ++head) {
        for (int64_t i = 0; i < 5; ++i) {
          const float expected = Value(token, layer, head, i);
          EXPECT_EQ(page[kShape.key_offset(layer, head) + i * nn::kPageTokens +
                         index],
                    expected);
          EXPECT_EQ(page[kShape.value_offset(layer, head) + index * 5 + i],
                    -expected);
        }
      }
    }
  }

  KvPageStore store_{kShape,
                     nn::PortableKernels(),
                     {.total_tokens = 200, .max_cached_tokens = 200}};
};

TEST_F(PagedKvCacheTest, KeptRowsMoveBehindThePrefixAcrossPages) {
  PagedKvCache cache(&store_);
  ASSERT_TRUE(cache.Reserve(30).ok());
  std::vector<int32_t> all;
  for (int32_t row = 0; row < 30; ++row) {
    Write(cache, row, row);
    all.push_back(row);
  }
  cache.Keep(all);
  EXPECT_EQ(cache.length(), 30);
  ASSERT_TRUE(cache.Reserve(30 + 40).ok());
  for (int64_t row = 0; row < 40; ++row) Write(cache, row, 100 + row);
  cache.Keep(std::vector<int32_t>{0, 3, 4, 17, 39});
  EXPECT_EQ(cache.length(), 35);
  for (int64_t slot = 0; slot < 30; ++slot) ExpectToken(cache, slot, slot);
  ExpectToken(cache, 30, 100);
  ExpectToken(cache, 31, 103);
  ExpectToken(cache, 32, 104);
  ExpectToken(cache, 33, 117);
  ExpectToken(cache, 34, 139);
}

TEST_F(PagedKvCacheTest, TruncateAndDeathGivePagesBack) {
  {
    PagedKvCache cache(&store_);
    ASSERT_TRUE(cache.Reserve(100).ok());
    EXPECT_EQ(store_.pool().used_tokens(), 128);
    cache.Keep(std::vector<int32_t>(40));
    cache.Truncate(33);
    EXPECT_EQ(store_.pool().used_tokens(), 64);
    cache.Truncate(0);
    EXPECT_EQ(store_.pool().used_tokens(), 0);
    ASSERT_TRUE(cache.Reserve(1).ok());
  }
  EXPECT_EQ(store_.pool().used_tokens(), 0);
}

TEST_F(PagedKvCacheTest, FullPoolTakesNothing) {
  PagedKvCache first(&store_), second(&store_);
  ASSERT_TRUE(first.Reserve(96).ok());
  EXPECT_EQ(second.Reserve(129).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.pool().used_tokens(), 96);
  EXPECT_TRUE(second.Reserve(96).ok());
}

}  // namespace
}  // namespace espalier
