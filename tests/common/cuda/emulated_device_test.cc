// The emulation itself: what it does late, and which broken rules it names.
#include "common/cuda/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "common/cuda/device.h"
#include "common/cuda/emulation/ready_threads.h"
#include "common/cuda/group_multiply.h"
#include "gtest/gtest.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

using emulation::BlockShape;
using emulation::Grid;
using emulation::StackPool;

// Runs a kernel of one block, with 1 KiB of shared memory.
void RunBlock(const std::function<void()>& kernel, int threads = 32,
              uint64_t seed = 1) {
  StackPool stacks;
  Grid grid({.kernel = "Tested",
             .threads = threads,
             .shared_bytes = 1024,
             .seed = seed},
            kernel, stacks);
  grid.Finish();
}

unsigned char* Shared() { return Block::Current().shared(); }
uint64_t* Barrier(int i) {
  return reinterpret_cast<uint64_t*>(Shared() + 512) + i;
}
void InitBarrier(uint32_t arrivals) {
  if (threadIdx.x == 0) {
    BarrierInit(Barrier(0), arrivals);
    FenceBarrierInit();
  }
  __syncthreads();
}

TEST(EmulationTest, ThreadsMeet) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<int> sums(64);
    RunBlock(
        [&] {
          WaitForPrevious();
          int* const values = reinterpret_cast<int*>(Shared());
          const int i = threadIdx.x;
          values[i] = i;
          __syncthreads();
          sums[i] = values[63 - i] + __shfl_xor_sync(~0u, i, 1) +
                    __shfl_up_sync(~0u, i, 2);
        },
        64, seed);
    for (int i = 0; i < 64; ++i) {
      const int up = i % 32 < 2 ? i : i - 2;
      EXPECT_EQ(sums[i], 63 - i + (i ^ 1) + up);
    }
  }
}

// What reads without a barrier sees what was there before, for some seed.
TEST(EmulationTest, MissingBarriersShow) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RunBlock(
        [&] {
          WaitForPrevious();
          int* const values = reinterpret_cast<int*>(Shared());
          values[threadIdx.x] = 1;
          if (values[threadIdx.x ^ 32] != 1) ++wrong;
        },
        64, seed);
  }
  EXPECT_GT(wrong, 0);
}

// A host that looks at once misses what threads write that did not meet.
TEST(EmulationTest, AFlagIsSeenBeforeOtherThreadsGoOn) {
  for (const bool meet : {false, true}) {
    int missing = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      uint32_t flag = 0;
      int written = 0;
      StackPool stacks;
      Grid grid(
          {.kernel = "Tested",
           .threads = 64,
           .shared_bytes = 1024,
           .seed = seed},
          [&] {
            WaitForPrevious();
            ++written;
            if (meet) __syncthreads();
            if (threadIdx.x == 0) RaiseFlag(&flag, 5);
          },
          stacks);
      while (flag != 5) ASSERT_TRUE(grid.Advance());
      missing += 64 - written;
      grid.Finish();
      EXPECT_EQ(written, 64);
    }
    EXPECT_EQ(missing == 0, meet);
  }
}

TEST(EmulationTest, SharedMemoryStartsAsNan) {
  RunBlock([] {
    WaitForPrevious();
    float x;
    std::memcpy(&x, Shared() + 4 * threadIdx.x, 4);
    EXPECT_TRUE(std::isnan(x));
  });
}

TEST(EmulationTest, CopiesLandBeforeTheirBarrierSaysSo) {
  alignas(16) const float source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int late = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RunBlock(
        [&] {
          WaitForPrevious();
          InitBarrier(1);
          float* const to = reinterpret_cast<float*>(Shared());
          if (threadIdx.x == 0) {
            BarrierArriveExpect(Barrier(0), 32);
            BulkCopy(to, source, 16, Barrier(0));
            BulkCopy(to + 4, source + 4, 16, Barrier(0));
            if (std::isnan(to[7])) ++late;
          }
          BarrierWait(Barrier(0), 0);
          EXPECT_EQ(to[threadIdx.x % 8], source[threadIdx.x % 8]);
        },
        32, seed);
  }
  EXPECT_GT(late, 0);
}

// --- products against their definition, with whole numbers: exact

TEST(EmulationTest, WarpProductsAreExact) {
  // a[16 x 16] and b[16 x 8] lie in shared memory as rows of 16 bytes pieces.
  RunBlock([] {
    WaitForPrevious();
    const auto a = [](int i, int k) { return i * 3 - k; };
    const auto b = [](int k, int j) { return k + 2 * j - 5; };
    auto* const shared = reinterpret_cast<uint16_t*>(Shared());
    const int lane = threadIdx.x;
    // Matrices of 8 x 8: a's quarters, by (row half, column half).
    const int m = lane / 8, r = lane % 8;
    for (int k = 0; k < 8; ++k) {
      shared[lane * 8 + k] =
          FloatToBf16(static_cast<float>(a(r + m % 2 * 8, k + m / 2 * 8)));
    }
    __syncwarp();
    uint32_t rows[4];
    LoadMatrices(SharedAddress(shared + lane * 8), rows);
    // b as rows of k: read transposed.
    __syncwarp();
    if (lane < 16) {
      for (int j = 0; j < 8; ++j) {
        shared[lane * 8 + j] = FloatToBf16(static_cast<float>(b(lane, j)));
      }
    }
    __syncwarp();
    uint32_t columns[4];
    LoadMatricesTransposed(SharedAddress(shared + lane % 16 * 8), columns);
    float sums[4] = {1, 1, 1, 1};
    Multiply16x8x16(sums, rows, columns[0], columns[1]);
    for (int q = 0; q < 4; ++q) {
      const int i = lane / 4 + q / 2 * 8, j = 2 * (lane % 4) + q % 2;
      int wanted = 1;
      for (int k = 0; k < 16; ++k) wanted += a(i, k) * b(k, j);
      EXPECT_EQ(sums[q], wanted);
    }
  });
}

// --- broken rules

TEST(EmulationDeathTest, NamesBrokenRules) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(RunBlock([] { __syncthreads(); }), "never waited");
  EXPECT_DEATH(RunBlock([] {
                 WaitForPrevious();
                 if (threadIdx.x > 0) __syncthreads();
               }),
               "Tested, block .0, 0, 0.*deadlock");
  EXPECT_DEATH(RunBlock([] {
                 WaitForPrevious();
                 if (threadIdx.x % 2 == 0) {
                   __shfl_xor_sync(~0u, 1, 1);
                 } else {
                   __shfl_xor_sync(~0u, 1.0f, 1);
                 }
               }),
               "different instructions");
  EXPECT_DEATH(RunBlock([] {
                 uint32_t out[4];
                 LoadMatrices(1024 - 8, out);
               }),
               "not aligned to 16");
  EXPECT_DEATH(RunBlock([] {
                 uint32_t out[4];
                 LoadMatrices(1024, out);
               }),
               "beyond the shared memory");
  EXPECT_DEATH(RunBlock([] {
                 const float mine = 0;
                 SharedAddress(&mine);
               }),
               "not an address of shared memory");
}

TEST(EmulationDeathTest, NamesBrokenRulesOfBarriers) {
  alignas(16) static const unsigned char source[64] = {};
  EXPECT_DEATH(RunBlock([] { BarrierArrive(Barrier(0)); }), "not initialised");
  EXPECT_DEATH(RunBlock([] {
                 InitBarrier(1);
                 BarrierInit(Barrier(0), 1);
               }),
               "initialised twice");
  EXPECT_DEATH(RunBlock([] {
                 InitBarrier(1);
                 if (threadIdx.x > 0) return;
                 BarrierArriveExpect(Barrier(0), 16);
                 BarrierArrive(Barrier(0));
               }),
               "more arrivals");
  EXPECT_DEATH(RunBlock([] {
                 BarrierInit(Barrier(threadIdx.x), 1);
                 BulkCopy(Shared(), source, 16, Barrier(threadIdx.x));
               }),
               "fence");
  EXPECT_DEATH(RunBlock([] {
                 InitBarrier(32);
                 BulkCopy(Shared(), source + 8, 16, Barrier(0));
               }),
               "not aligned");
  // Fewer bytes than expected: nobody goes on.
  EXPECT_DEATH(RunBlock([] {
                 WaitForPrevious();
                 InitBarrier(1);
                 if (threadIdx.x == 0) {
                   BarrierArriveExpect(Barrier(0), 32);
                   BulkCopy(Shared(), source, 16, Barrier(0));
                 }
                 BarrierWait(Barrier(0), 0);
               }),
               "deadlock");
  const auto leaves_early = [] {
    WaitForPrevious();
    InitBarrier(1);
    if (threadIdx.x > 0) return;
    BarrierArriveExpect(Barrier(0), 16);
    BulkCopy(Shared(), source, 16, Barrier(0));
  };
  EXPECT_DEATH(
      {
        for (uint64_t seed = 0; seed < 20; ++seed)
          RunBlock(leaves_early, 32, seed);
      },
      "copies were under way");
}

TEST(EmulationDeathTest, NamesBrokenRulesOfGroupProducts) {
  EXPECT_DEATH(RunBlock(
                   [] {
                     float sums[8] = {};
                     GroupMultiply<16>(sums, TileDescriptor(0),
                                       TileDescriptor(0));
                   },
                   128),
               "no fence");
  EXPECT_DEATH(RunBlock(
                   [] {
                     float sums[8] = {};
                     GroupFence();
                     GroupMultiply<16>(sums,
                                       TileDescriptor(threadIdx.x / 64 * 32),
                                       TileDescriptor(0));
                   },
                   128),
               "disagree");
  EXPECT_DEATH(RunBlock(
                   [] {
                     float sums[8] = {};
                     uint32_t held[4] = {1, 2, 3, 4};
                     GroupFence();
                     GroupMultiplyHeld<16>(sums, held, TileDescriptor(0));
                     held[2] = 5;
                     GroupCommit();
                     GroupWait<0>();
                   },
                   128),
               "registers changed");
  EXPECT_DEATH(RunBlock(
                   [] {
                     float sums[8] = {};
                     GroupFence();
                     GroupMultiply<16>(sums, TileDescriptor(0),
                                       TileDescriptor(0));
                     GroupCommit();
                     GroupWait<0>();
                   },
                   128),
               "beyond the shared memory");
}

// Registers of four warpgroups, which are launched with 128 a thread.
TEST(EmulationTest, RegistersAreTakenWhenOthersKeepFewer) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    bool kept = false;
    RunBlock(
        [&] {
          WaitForPrevious();
          if (threadIdx.x / 128 < 3) {
            TakeRegisters<160>();
            EXPECT_TRUE(kept);
          } else {
            kept = true;
            KeepRegisters<32>();
          }
        },
        512, seed);
  }
}

TEST(EmulationDeathTest, NamesBrokenRulesOfRegisters) {
  EXPECT_DEATH(RunBlock(
                   [] {
                     WaitForPrevious();
                     if (threadIdx.x / 128 < 3) {
                       TakeRegisters<168>();
                     } else {
                       KeepRegisters<32>();
                     }
                   },
                   512),
               "deadlock");
  EXPECT_DEATH(RunBlock([] { KeepRegisters<28>(); }, 128), "multiple of 8");
  EXPECT_DEATH(RunBlock(
                   [] {
                     WaitForPrevious();
                     if (threadIdx.x < 32) KeepRegisters<32>();
                   },
                   128),
               "deadlock");
}

// --- launches

// A kernel that begins early does not see what the one before writes, unless it
// waits.
TEST(EmulationTest, KernelsBeginBeforeTheOneBefore) {
  StackPool stacks;
  int written = 0, seen_early = -1, seen_after = -1;
  Grid first(
      {.kernel = "First", .threads = 32},
      [&] {
        WaitForPrevious();
        written = 1;
      },
      stacks);
  Grid second(
      {.kernel = "Second", .threads = 32},
      [&] {
        seen_early = written;
        WaitForPrevious();
        seen_after = written;
      },
      stacks);
  second.RunAhead();
  first.Finish();
  second.Finish();
  EXPECT_EQ(seen_early, 0);
  EXPECT_EQ(seen_after, 1);
}

TEST(EmulatedDeviceTest, MemoryIsBoundedAndStartsAsNan) {
  EmulatedDevice device({.memory_bytes = 100});
  const absl::StatusOr<std::byte*> memory =
      device.Allocate(80, Memory::kDevice);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(device.info().free_bytes, 20);
  EXPECT_EQ(device.Allocate(21, Memory::kDevice).status().code(),
            absl::StatusCode::kResourceExhausted);
  float x;
  std::memcpy(&x, *memory, 4);
  EXPECT_TRUE(std::isnan(x));
  device.Free(*memory);
  EXPECT_EQ(device.info().free_bytes, 100);
}

TEST(EmulatedDeviceTest, CopiesAreLate) {
  EmulatedDevice device({});
  const auto array = NewArray<int>(device, 1);
  int value = 1;
  device.Copy(array.data(), &value, sizeof value);
  value = 2;  // too early: the copy may not have begun
  const int64_t event = device.Record();
  ASSERT_TRUE(device.Wait(event).ok());
  EXPECT_EQ(ValuesOf(device, array)[0], 2);
}

// Lanes that are missing at the ends of a warp included; and each of two
// threads of a warp is sometimes ahead of the other.
TEST(ReadyThreadsTest, EveryThreadIsTakenOnce) {
  constexpr int kWarps = 5;
  std::set<bool> is_third_ahead;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    emulation::Dice dice(seed);
    emulation::ReadyThreads ready(kWarps, dice);
    std::set<int> expected;
    for (int warp = 0; warp < kWarps; ++warp) {
      ready.Add(warp, 0xffffffffu >> 2 * warp << warp);
      for (int lane = warp; lane < 32 - warp; ++lane) {
        expected.insert(32 * warp + lane);
      }
    }
    std::vector<int> taken;
    while (!ready.empty()) taken.push_back(ready.Take());
    EXPECT_EQ(std::set<int>(taken.begin(), taken.end()), expected) << seed;
    EXPECT_EQ(taken.size(), expected.size()) << seed;
    is_third_ahead.insert(std::find(taken.begin(), taken.end(), 3) <
                          std::find(taken.begin(), taken.end(), 9));
  }
  EXPECT_EQ(is_third_ahead.size(), 2);
}

}  // namespace
}  // namespace espalier::cuda
