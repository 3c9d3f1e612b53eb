// Products of the tensor cores, bf16 times bf16 summed in float32, as warps
// (mma.sync, fed by ldmatrix) and as warpgroups of four (wgmma). As device.h:
// an instruction each, beside its meaning.
#ifndef ESPALIER_COMMON_CUDA_TENSOR_CORE_H_
#define ESPALIER_COMMON_CUDA_TENSOR_CORE_H_

#include "common/cuda/device.h"

namespace espalier::cuda {
namespace {

// --- warps

#if !defined(__CUDACC__)
struct LoadArguments {
  uint32_t address;
  uint32_t* out;
};
// Half h of lane's register m is element `of` of row `row` of matrix m.
template <typename ElementOf>
void LoadMatricesOf(LoadArguments** lanes, ElementOf element) {
  const unsigned char* rows[32];
  for (int lane = 0; lane < 32; ++lane) {
    const uint32_t address = lanes[lane]->address;
    if (address % 16 != 0)
      Block::Fail("ldmatrix: a row is not aligned to 16 bytes");
    rows[lane] = Block::Current().At(address, 16);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < 4; ++m) {
      uint16_t halves[2];
      for (int h = 0; h < 2; ++h) {
        const auto [row, column] = element(lane, h);
        std::memcpy(&halves[h], rows[8 * m + row] + 2 * column, 2);
      }
      lanes[lane]->out[m] = halves[0] | uint32_t{halves[1]} << 16;
    }
  }
}
struct Element {
  int row, column;
};
#endif

// Four matrices of 8 x 8. Lane 8 m + r gives the shared address of row r of
// matrix m, 16 bytes; rows may lie anywhere.
DEVICE void LoadMatrices(uint32_t address, uint32_t (&out)[4]) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
#else
  LoadArguments arguments = {address, out};
  Block::Current().MeetInWarp<LoadArguments>(
      arguments, [](LoadArguments** lanes) {
        LoadMatricesOf(lanes, [](int lane, int h) {
          return Element{lane / 4, 2 * (lane % 4) + h};
        });
      });
#endif
}

// The same, each transposed.
DEVICE void LoadMatricesTransposed(uint32_t address, uint32_t (&out)[4]) {
#if defined(__CUDACC__)
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
      : "r"(address));
#else
  LoadArguments arguments = {address, out};
  Block::Current().MeetInWarp<LoadArguments>(
      arguments, [](LoadArguments** lanes) {
        LoadMatricesOf(lanes, [](int lane, int h) {
          return Element{2 * (lane % 4) + h, lane / 4};
        });
      });
#endif
}

// sums[16 x 8] += a[16 x 16] b[16 x 8]. With g = lane / 4 and t = lane % 4 a
// lane holds sums (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
DEVICE void Multiply16x8x16(float (&sums)[4], const uint32_t (&a)[4],
                            uint32_t b0, uint32_t b1) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  struct Arguments {
    float* sums;
    const uint32_t* a;
    uint32_t b[2];
  } arguments = {sums, a, {b0, b1}};
  Block::Current().MeetInWarp<Arguments>(arguments, [](Arguments** lanes) {
    const auto half = [](uint32_t pair, int i) {
      return FromBf16(pair >> (16 * i) & 0xffff);
    };
    float left[16][16];
    emulation::EightColumns right;
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 2; ++i) {
        for (int q = 0; q < 4; ++q) {
          left[g + 8 * (q % 2)][2 * t + i + 8 * (q / 2)] =
              half(lanes[lane]->a[q], i);
        }
        for (int q = 0; q < 2; ++q) {
          right.Set(2 * t + i + 8 * q, g, half(lanes[lane]->b[q], i));
        }
      }
    }
    for (int row = 0; row < 16; ++row) {
      const std::array<float, 8> added = right.Multiply(left[row]);
      for (int n = 0; n < 8; ++n) {
        lanes[row % 8 * 4 + n / 2]->sums[row / 8 * 2 + n % 2] += added[n];
      }
    }
  });
#endif
}

// --- warpgroups

// Returns a descriptor by which a product finds rows of 64 numbers (128 bytes)
// in shared memory, swizzled as TilePlace (layout.h) says. `address`: of a
// multiple of 1024, plus 32 for each step of 16 numbers.
DEVICE uint64_t TileDescriptor(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{1} << 16 |
         kEightRows << 32 | kSwizzle128 << 62;
}

// Before the first product, and after its registers were touched.
DEVICE void GroupFence() {
#if defined(__CUDACC__)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  Block::Current().warpgroup().Fence(threadIdx.x % 128);
#endif
}

// Keeps the compiler from moving sums across this: before the first fence, and
// after the last wait. In between it would have products wait for each other.
template <int kSize>
DEVICE void HoldSums(float (&sums)[kSize]) {
#if defined(__CUDACC__)
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(sums[i])::"memory");
#else
  static_cast<void>(sums);
#endif
}

// Keeps the compiler from computing what follows from a number before this: in
// a loop, such as the places of all sums, which would take their registers.
DEVICE void HoldNumber(int& number) {
#if defined(__CUDACC__)
  asm volatile("" : "+r"(number));
#else
  static_cast<void>(number);
#endif
}

// Holds the registers that products read, before the fence.
template <int kSteps>
DEVICE void HoldFactors(uint32_t (&held)[kSteps][4]) {
#if defined(__CUDACC__)
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) {
    asm volatile("" : "+r"(held[i / 4][i % 4])::"memory");
  }
#else
  static_cast<void>(held);
#endif
}

DEVICE void GroupCommit() {
#if defined(__CUDACC__)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  Block::Current().warpgroup().Commit(threadIdx.x % 128);
#endif
}

// Has each thread of this warpgroup keep so many registers of those that it was
// launched with, or take so many from what other warpgroups of the block do not
// keep, for which it waits. The compiler counts on launch bounds that give all
// threads their share.
template <int kRegisters>
DEVICE void KeepRegisters() {
#if defined(__CUDACC__)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#else
  Block::Current().SetRegisters(kRegisters);
#endif
}
template <int kRegisters>
DEVICE void TakeRegisters() {
#if defined(__CUDACC__)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#else
  Block::Current().SetRegisters(kRegisters);
#endif
}

// Until at most kLeft of the committed groups are not done.
template <int kLeft>
DEVICE void GroupWait() {
#if defined(__CUDACC__)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#else
  Block& block = Block::Current();
  block.MeetInWarpgroup([&block] { block.warpgroup().Complete(kLeft); });
#endif
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_TENSOR_CORE_H_
