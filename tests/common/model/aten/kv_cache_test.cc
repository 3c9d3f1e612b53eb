#include "common/model/aten/kv_cache.h"

#include <c10/util/Exception.h>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(AtenKvCacheTest, WithoutMemoryItHoldsWhatItHeld) {
  KvPool pool(1024);
  // No machine has the memory of one layer.
  KvCache cache({.num_layers = 1,
                 .num_kv_heads = 1,
                 .head_dim = int64_t{1} << 50,
                 .dtype = at::kFloat},
                &pool);
  int64_t spare = 1024;
  EXPECT_THROW(cache.Reserve(1, spare).IgnoreError(), c10::Error);
  EXPECT_EQ(cache.held_tokens(), 0);
  EXPECT_EQ(pool.used_tokens(), 0);
  EXPECT_EQ(spare, 1024);
}

TEST(AtenKvCacheTest, ReservesWholeBlocksAndReturnsThem) {
  KvPool pool(1024);
  {
    KvCache cache({.num_layers = 2,
                   .num_kv_heads = 1,
                   .head_dim = 4,
                   .dtype = at::kFloat},
                  &pool);
    int64_t spare = 0;
    ASSERT_TRUE(cache.Reserve(65, spare).ok());
    EXPECT_EQ(cache.held_tokens(), 2 * KvCache::kBlockTokens);
    EXPECT_EQ(cache.k(1).size(1), cache.held_tokens());
    EXPECT_EQ(pool.used_tokens(), cache.held_tokens());
  }
  EXPECT_EQ(pool.used_tokens(), 0);
}

}  // namespace
}  // namespace espalier
