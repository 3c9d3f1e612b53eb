#include "common/nn/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::nn {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int64_t> {};

// More threads than this machine has cores, too.
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest,
                         ::testing::Values(1, 2, 3, 9));

TEST_P(ThreadPoolTest, EveryIndexIsRunOnceWhateverTheGrain) {
  ThreadPool pool({.threads = GetParam()});
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t size : {0, 1, 2, 7, 64, 1000}) {
    for (int64_t grain : {1, 2, 3, 64, 5000}) {
      std::vector<int> count(size);
      pool.ParallelFor(size, grain, [&](const ThreadPool::Chunk& chunk) {
        EXPECT_TRUE(GetParam() == 1 || chunk.end - chunk.begin <= grain);
        EXPECT_TRUE(0 <= chunk.thread && chunk.thread < GetParam());
        for (int64_t i = chunk.begin; i < chunk.end; ++i) ++count[i];
      });
      EXPECT_EQ(std::count(count.begin(), count.end(), 1), size)
          << size << " by " << grain;
    }
  }
}

// Each loop reads what the one before wrote, in plain memory: a loop that
// returned early, or a chunk run for the wrong loop, would be seen here.
TEST_P(ThreadPoolTest, LoopsFollowEachOtherWithoutMixing) {
  ThreadPool pool({.threads = GetParam()});
  std::vector<int64_t> values(37);
  for (int64_t loop = 0; loop < 5000; ++loop) {
    const int64_t size = 2 + loop % 36;
    pool.ParallelFor(size, 1 + loop % 3, [&](const ThreadPool::Chunk& chunk) {
      for (int64_t i = chunk.begin; i < chunk.end; ++i) values[i] += loop;
    });
  }
  std::vector<int64_t> expected(37);
  for (int64_t loop = 0; loop < 5000; ++loop) {
    for (int64_t i = 0; i < 2 + loop % 36; ++i) expected[i] += loop;
  }
  EXPECT_EQ(values, expected);
}

TEST_P(ThreadPoolTest, ScratchByThreadIsNotShared) {
  ThreadPool pool({.threads = GetParam()});
  struct alignas(64) Scratch {
    int64_t value = 0;
  };
  std::vector<Scratch> scratch(pool.threads());
  for (int loop = 0; loop < 200; ++loop) {
    pool.ParallelFor(100, 1, [&](const ThreadPool::Chunk& chunk) {
      scratch[chunk.thread].value += chunk.end - chunk.begin;
    });
  }
  int64_t sum = 0;
  for (const Scratch& part : scratch) sum += part.value;
  EXPECT_EQ(sum, 200 * 100);
}

TEST(ThreadPoolTest, WorkersHelp) {
  ThreadPool pool({.threads = 2});
  // Neither chunk can end before both have begun.
  std::atomic<int> begun{0};
  pool.ParallelFor(2, 1, [&](const ThreadPool::Chunk&) {
    begun.fetch_add(1);
    while (begun.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(begun.load(), 2);
}

// Each thread has its share in ascending order, and nothing is left to steal:
// a chunk ends when the other thread has begun as many.
TEST(ThreadPoolTest, SharesAreContiguousAndEqual) {
  ThreadPool pool({.threads = 2});
  std::atomic<int> begun{0};
  std::vector<std::pair<int64_t, int64_t>> chunks[2];
  pool.ParallelFor(30, 4, [&](const ThreadPool::Chunk& chunk) {
    auto& own = chunks[chunk.thread];
    own.emplace_back(chunk.begin, chunk.end);
    begun.fetch_add(1);
    while (begun.load() < 2 * std::ssize(own)) std::this_thread::yield();
  });
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(chunks[0], (Pairs{{0, 3}, {3, 7}, {7, 11}, {11, 15}}));
  EXPECT_EQ(chunks[1], (Pairs{{15, 18}, {18, 22}, {22, 26}, {26, 30}}));
}

// The far end of a share is stolen while its owner is at work on the first
// chunk.
TEST(ThreadPoolTest, WhoHasEndedHelps) {
  ThreadPool pool({.threads = 2});
  std::atomic<bool> first_begun{false};
  std::atomic<int> ended{0};
  std::vector<int64_t> by_thread[2];
  pool.ParallelFor(8, 1, [&](const ThreadPool::Chunk& chunk) {
    by_thread[chunk.thread].push_back(chunk.begin);
    if (chunk.begin == 0) {
      first_begun.store(true);
      while (ended.load() < 7) std::this_thread::yield();
    } else {
      while (!first_begun.load()) std::this_thread::yield();
    }
    ended.fetch_add(1);
  });
  EXPECT_EQ(by_thread[0], std::vector<int64_t>{0});
  EXPECT_EQ(by_thread[1], (std::vector<int64_t>{4, 5, 6, 7, 3, 2, 1}));
}

TEST(ThreadPoolTest, DefaultIsOneThreadPerUsableCpu) {
  const std::vector<int> cpus = UsableCpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(std::set<int>(cpus.begin(), cpus.end()).size(), cpus.size());
  EXPECT_EQ(ThreadPool({}).threads(), static_cast<int64_t>(cpus.size()));
}

TEST(ThreadPoolTest, PoolsLiveSideBySide) {
  ThreadPool a({.threads = 3, .pin_workers = false});
  ThreadPool b({.threads = 3});
  std::vector<int64_t> values(64);
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) {
      a.ParallelFor(32, 1, [&](const ThreadPool::Chunk& chunk) {
        ++values[chunk.begin];
      });
    }
  });
  for (int i = 0; i < 500; ++i) {
    b.ParallelFor(32, 1, [&](const ThreadPool::Chunk& chunk) {
      ++values[32 + chunk.begin];
    });
  }
  other.join();
  EXPECT_EQ(std::count(values.begin(), values.end(), 500), 64);
}

TEST(ThreadPoolTest, CallerPinLeavesTheThreadAsItWas) {
  const std::vector<int> before = UsableCpus();
  if (before.size() < 2) GTEST_SKIP() << "one CPU";
  ThreadPool pool({.threads = 2});
  {
    const ThreadPool::CallerPin pin(pool);
    EXPECT_EQ(UsableCpus(), std::vector<int>{before[0]});
    std::vector<int> on_worker;
    pool.ParallelFor(2, 1, [&](const ThreadPool::Chunk& chunk) {
      if (chunk.thread == 1) on_worker = UsableCpus();
    });
    if (!on_worker.empty()) {
      EXPECT_EQ(on_worker, std::vector<int>{before[1]});
    }
  }
  EXPECT_EQ(UsableCpus(), before);
  const ThreadPool alone({.threads = 1});
  const ThreadPool::CallerPin none(alone);
  EXPECT_EQ(UsableCpus(), before);
}

}  // namespace
}  // namespace espalier::nn
