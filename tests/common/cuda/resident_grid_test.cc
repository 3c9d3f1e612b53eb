// Blocks that wait for each other: what the emulation lets happen, and which
// broken rules it names.
#include "common/cuda/emulation/resident_grid.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "common/cuda/counters.h"
#include "gtest/gtest.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

using emulation::ResidentGrid;
using emulation::StackPool;

constexpr int kThreads = 64;

void RunBlocks(unsigned blocks, const std::function<void()>& kernel,
               uint64_t seed = 1, bool is_ahead = false) {
  StackPool stacks;
  ResidentGrid grid({.kernel = "Resident",
                     .grid = {blocks},
                     .threads = kThreads,
                     .shared_bytes = 1024,
                     .seed = seed},
                    kernel, stacks);
  if (is_ahead) grid.RunAhead();
  grid.Finish();
}

// Each block writes, and reads what all others wrote, in rounds.
TEST(ResidentGridTest, BlocksMeetByCounters) {
  constexpr unsigned kBlocks = 5;
  constexpr uint32_t kRounds = 4;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    uint32_t done = 0;
    std::vector<uint32_t> values(kBlocks * kThreads);
    RunBlocks(
        kBlocks,
        [&] {
          WaitForPrevious();
          for (uint32_t round = 1; round <= kRounds; ++round) {
            values[blockIdx.x * kThreads + threadIdx.x] = round;
            __syncthreads();
            if (threadIdx.x == 0) {
              CounterAdd(&done);
              CounterWait(&done, 2 * kBlocks * (round - 1) + kBlocks);
            }
            __syncthreads();
            EXPECT_EQ(std::set(values.begin(), values.end()), std::set{round});
            __syncthreads();
            if (threadIdx.x == 0) {
              CounterAdd(&done);
              CounterWait(&done, 2 * kBlocks * round);
            }
            __syncthreads();
          }
        },
        seed, /*is_ahead=*/seed % 2 == 0);
  }
}

// A block may be ahead of another by as much as nothing holds it back.
TEST(ResidentGridTest, BlocksAreOfDifferentSpeed) {
  int first_ended_before_other_began = 0, other_way = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    int begun[2] = {}, ended[2] = {};
    RunBlocks(
        2,
        [&] {
          WaitForPrevious();
          const unsigned other = 1 - blockIdx.x;
          ++begun[blockIdx.x];
          __syncthreads();
          ++ended[blockIdx.x];
          if (ended[blockIdx.x] < kThreads || begun[other] > 0) return;
          ++(blockIdx.x == 0 ? first_ended_before_other_began : other_way);
        },
        seed);
  }
  EXPECT_GT(first_ended_before_other_began, 0);
  EXPECT_GT(other_way, 0);
}

TEST(ResidentGridTest, AMissingWaitShows) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint32_t done = 0;
    int written = 0;
    RunBlocks(
        2,
        [&] {
          WaitForPrevious();
          if (threadIdx.x > 0) return;
          if (blockIdx.x == 0) {
            written = 1;
            CounterAdd(&done);
          } else if (written == 0) {
            ++wrong;
          }
        },
        seed);
  }
  EXPECT_GT(wrong, 0);
}

TEST(ResidentGridTest, OneBlockReachesTheLastCount) {
  uint32_t counter = 0;
  int last = 0;
  RunBlocks(7, [&] {
    WaitForPrevious();
    if (threadIdx.x == 0 && CounterReaches(&counter, 7)) ++last;
  });
  EXPECT_EQ(last, 1);
}

TEST(ResidentGridTest, SomeWarpsMeet) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<int> seen(kThreads);
    RunBlocks(
        1,
        [&] {
          WaitForPrevious();
          // Warps for themselves: the other one is not waited for.
          const int barrier = 1 + static_cast<int>(threadIdx.x) / 32;
          int* const values = reinterpret_cast<int*>(Block::Current().shared());
          for (int round = 0; round < 3; ++round) {
            values[threadIdx.x] = round;
            NamedSync(barrier, 32);
            seen[threadIdx.x] += values[threadIdx.x ^ 31];
            NamedSync(barrier, 32);
          }
        },
        seed);
    EXPECT_EQ(seen, std::vector(kThreads, 0 + 1 + 2));
  }
}

// The thread that waited copies, behind a fence.
TEST(ResidentGridTest, CopiesFollowCountersBehindAFence) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    alignas(16) float values[kThreads] = {};
    uint32_t done = 0;
    RunBlocks(
        2,
        [&] {
          WaitForPrevious();
          float* const here =
              reinterpret_cast<float*>(Block::Current().shared());
          auto* const barrier = reinterpret_cast<uint64_t*>(here + kThreads);
          if (threadIdx.x == 0) {
            BarrierInit(barrier, 1);
            FenceBarrierInit();
          }
          if (blockIdx.x == 0) {
            values[threadIdx.x] = 1.0f + static_cast<float>(threadIdx.x);
            FenceAsyncGlobal();
          }
          __syncthreads();
          if (blockIdx.x == 0) {
            if (threadIdx.x == 0) CounterAdd(&done);
            return;
          }
          if (threadIdx.x == 0) {
            CounterWait(&done, 1);
            FenceAsyncGlobal();
            BarrierArriveExpect(barrier, sizeof values);
            BulkCopy(here, values, sizeof values, barrier);
          }
          BarrierWait(barrier, 0);
          EXPECT_EQ(here[threadIdx.x], 1.0f + static_cast<float>(threadIdx.x));
        },
        seed);
  }
}

// --- broken rules

TEST(ResidentGridDeathTest, NamesBrokenRules) {
  GTEST_FLAG_SET(death_test_style, "fast");
  static uint32_t counter = 0;
  // The counter comes to one less than is waited for.
  EXPECT_DEATH(RunBlocks(3,
                         [] {
                           WaitForPrevious();
                           if (threadIdx.x == 0) {
                             if (blockIdx.x > 0) CounterAdd(&counter);
                             CounterWait(&counter, 3);
                           }
                           __syncthreads();
                         }),
               "Resident.*deadlock of blocks\nblock 0: of 64 threads 1 wait "
               "for a counter, 63 are at __syncthreads, 0 copies.*\nblock 1.*"
               "\nblock 2");
  EXPECT_DEATH(RunBlocks(2,
                         [] {
                           WaitForPrevious();
                           if (threadIdx.x < 32) NamedSync(2, 64);
                         }),
               "32 are at named barrier 2");
  EXPECT_DEATH(RunBlocks(1,
                         [] {
                           WaitForPrevious();
                           NamedSync(1, threadIdx.x % 2 == 0 ? 32 : 64);
                         }),
               "disagree");
  EXPECT_DEATH(RunBlocks(1, [] { NamedSync(0, 32); }), "named barrier is 0");
  EXPECT_DEATH(RunBlocks(1, [] { NamedSync(1, 48); }), "whole warps");
  EXPECT_DEATH(RunBlocks(1, [] {}), "never waited");
}

TEST(ResidentGridDeathTest, NamesCopiesWithoutAFence) {
  GTEST_FLAG_SET(death_test_style, "fast");
  alignas(16) static const unsigned char source[16] = {};
  static uint32_t counter = 1;
  EXPECT_DEATH(RunBlocks(1,
                         [] {
                           WaitForPrevious();
                           unsigned char* const shared =
                               Block::Current().shared();
                           auto* const barrier =
                               reinterpret_cast<uint64_t*>(shared + 512);
                           if (threadIdx.x > 0) return;
                           BarrierInit(barrier, 1);
                           FenceBarrierInit();
                           CounterWait(&counter, 1);
                           BarrierArriveExpect(barrier, 16);
                           BulkCopy(shared, source, 16, barrier);
                         }),
               "after a counter, without a fence");
}

TEST(ResidentGridDeathTest, NamesHintsAtWhatNoCopyBringsLater) {
  GTEST_FLAG_SET(death_test_style, "fast");
  alignas(16) static const unsigned char source[32] = {};
  const auto hint = [](const unsigned char* at, uint32_t bytes) {
    RunBlocks(1, [=] {
      WaitForPrevious();
      unsigned char* const shared = Block::Current().shared();
      auto* const barrier = reinterpret_cast<uint64_t*>(shared + 512);
      if (threadIdx.x > 0) return;
      BarrierInit(barrier, 1);
      FenceBarrierInit();
      HintL2(at, bytes);
      BarrierArriveExpect(barrier, 16);
      BulkCopy(shared, source, 16, barrier);
      BarrierWait(barrier, 0);
    });
  };
  hint(source, 16);
  EXPECT_DEATH(hint(source + 16, 16), "a hint at what no bulk copy");
  EXPECT_DEATH(hint(source, 32), "a hint at what no bulk copy");
  EXPECT_DEATH(hint(source + 8, 16), "whole pieces");
}

// Blocks that run in turn cannot wait for each other: only a kernel that is
// launched as one that stays has counters.
TEST(ResidentGridDeathTest, BlocksOfOtherGridsDoNotWait) {
  GTEST_FLAG_SET(death_test_style, "fast");
  static uint32_t counter = 0;
  EXPECT_DEATH(
      {
        StackPool stacks;
        emulation::Grid(
            {.kernel = "NotResident",
             .grid = {2},
             .threads = 32,
             .shared_bytes = 16},
            [] {
              WaitForPrevious();
              if (threadIdx.x > 0) return;
              CounterAdd(&counter);
              CounterWait(&counter, 2);
            },
            stacks)
            .Finish();
      },
      "NotResident.*deadlock");
}

}  // namespace
}  // namespace espalier::cuda
