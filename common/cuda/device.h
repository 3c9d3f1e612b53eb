// The instructions that kernels need of the GPU beside C++: each is one PTX
// instruction there, and its meaning in C++ in the emulation. Kernels call
// nothing else of either. For the files that hold kernels only; tensor_core.h
// has the products.
#ifndef ESPALIER_COMMON_CUDA_DEVICE_H_
#define ESPALIER_COMMON_CUDA_DEVICE_H_

#include <cstdint>

#if defined(__CUDACC__)
#define DEVICE __device__ __forceinline__
// The block's dynamic shared memory, aligned to 1024 bytes.
#define SHARED_MEMORY(name) \
  extern __shared__ __align__(1024) unsigned char name[]
#else
#include <cmath>
#include <cstring>

#include "common/base/bf16.h"
#include "common/cuda/emulation/intrinsics.h"
#define DEVICE inline
#define SHARED_MEMORY(name)   \
  unsigned char* const name = \
      ::espalier::cuda::emulation::Block::Current().shared()
#endif

// Internal linkage: a program may hold the kernels of both compilers.
namespace espalier::cuda {
namespace {

#if !defined(__CUDACC__)
using emulation::Block;
#endif

// --- arithmetic

// Two bf16, rounded to nearest even; `low` in the lower half.
DEVICE uint32_t PackBf16(float low, float high) {
#if defined(__CUDACC__)
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return FloatToBf16(low) | uint32_t{FloatToBf16(high)} << 16;
#endif
}

DEVICE float FromBf16(uint32_t bits) {
#if defined(__CUDACC__)
  return __uint_as_float(bits << 16);
#else
  return Bf16ToFloat(static_cast<uint16_t>(bits));
#endif
}

// Two bf16 times two.
DEVICE uint32_t MultiplyBf16(uint32_t a, uint32_t b) {
#if defined(__CUDACC__)
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
#else
  const auto half = [&](int shift) {
    return FloatToBf16(FromBf16(a >> shift & 0xffff) *
                       FromBf16(b >> shift & 0xffff));
  };
  return half(0) | uint32_t{half(16)} << 16;
#endif
}

// Four e4m3 as two pairs of bf16, exactly: bytes 1 and 3, and bytes 0 and 2.
// Exponent and fraction are moved to where bf16 has them, which divides by
// 2^120. There is no NaN: code 127 is 480.
DEVICE void WidenE4m3(uint32_t codes, uint32_t& odd, uint32_t& even) {
  constexpr uint32_t kTwo120 = 0x7b807b80;  // 2^120, twice
  const auto widen = [](uint32_t high_bytes) {
    return MultiplyBf16(
        (high_bytes & 0x80008000) | (high_bytes >> 4 & 0x07f007f0), kTwo120);
  };
  odd = widen(codes);
  even = widen(codes << 8);
}

DEVICE uint32_t BitsOf(float x) {
#if defined(__CUDACC__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
#endif
}

DEVICE float Exp2(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

DEVICE float InverseSqrt(float x) {
#if defined(__CUDACC__)
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / std::sqrt(x);
#endif
}

DEVICE float Reciprocal(float x) {
#if defined(__CUDACC__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

// --- memory

// 16 bytes, aligned to as much: one access.
struct alignas(16) Piece {
  uint32_t words[4];
};

// So many numbers in one access, aligned to what they take.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Vector {
  T of[kCount];
};
template <int kCount, typename T>
DEVICE Vector<T, kCount> LoadVector(const T* from) {
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}
template <typename T, int kCount>
DEVICE void StoreVector(T* to, const Vector<T, kCount>& vector) {
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}

// 16 bytes of the host's memory, or of the device's, as they are now: no cache
// of an earlier kernel's reads has them.
DEVICE Piece LoadFromHost(const Piece* from) {
#if defined(__CUDACC__)
  Piece piece;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.words[0]), "=r"(piece.words[1]),
                 "=r"(piece.words[2]), "=r"(piece.words[3])
               : "l"(from)
               : "memory");
  return piece;
#else
  return *from;
#endif
}

// Shows the host a number. A host that sees it sees what this thread wrote,
// what others of the block wrote before they met it, and what it saw other
// kernels write. The host may look at once, whatever other threads still have
// to do.
DEVICE void RaiseFlag(uint32_t* flag, uint32_t number) {
#if defined(__CUDACC__)
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(number)
               : "memory");
#else
  *flag = number;
  Block::Current().LetOthersGoOn();
#endif
}

DEVICE uint32_t SharedAddress(const void* shared) {
#if defined(__CUDACC__)
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
#else
  return Block::Current().AddressOf(shared);
#endif
}

// The numbers of the block and of the thread, which the compiler reads again
// instead of keeping them and what follows from them in registers.
DEVICE int BlockAnew() {
#if defined(__CUDACC__)
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
#else
  return static_cast<int>(blockIdx.x);
#endif
}
DEVICE int ThreadAnew() {
#if defined(__CUDACC__)
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#else
  return static_cast<int>(threadIdx.x);
#endif
}

// --- barriers in shared memory

DEVICE void BarrierInit(uint64_t* barrier, uint32_t arrivals) {
#if defined(__CUDACC__)
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(arrivals)
      : "memory");
#else
  Block::Current().barriers().Init(barrier, arrivals);
#endif
}

// Makes initialised barriers visible. Called by the thread that initialised
// them, before __syncthreads.
DEVICE void FenceBarrierInit() {
#if defined(__CUDACC__)
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  Block::Current().barriers().Fence();
#endif
}

DEVICE void BarrierArrive(uint64_t* barrier) {
#if defined(__CUDACC__)
  asm volatile(
      "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier))
      : "memory");
#else
  Block::Current().barriers().Arrive(barrier);
#endif
}

// Arrives, and has the phase wait for so many bytes of copies as well.
DEVICE void BarrierArriveExpect(uint64_t* barrier, uint32_t bytes) {
#if defined(__CUDACC__)
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
#else
  Block::Current().barriers().Expect(barrier, bytes);
  Block::Current().barriers().Arrive(barrier);
#endif
}

// Until the phase of this parity is over. A new barrier is in phase 0.
DEVICE void BarrierWait(uint64_t* barrier, uint32_t parity) {
#if defined(__CUDACC__)
  uint32_t is_over = 0;
  while (is_over == 0) {
    asm volatile(
        "{\n.reg .pred over;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "selp.u32 %0, 1, 0, over;\n}"
        : "=r"(is_over)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
#else
  Block& block = Block::Current();
  while (!block.barriers().IsOver(barrier, parity)) block.Poll();
#endif
}

// Copies whole pieces of 16 bytes from global to shared memory. The barrier's
// phase counts the bytes when they are there.
DEVICE void BulkCopy(void* to, const void* from, uint32_t bytes,
                     uint64_t* barrier) {
#if defined(__CUDACC__)
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
#else
  Block::Current().BeginCopy({to, from, bytes, barrier});
#endif
}

// Does the same as BulkCopy, of what nobody reads again soon: the L2 cache
// gives it up before all else.
DEVICE void BulkCopyOnce(void* to, const void* from, uint32_t bytes,
                         uint64_t* barrier) {
#if defined(__CUDACC__)
  asm volatile(
      "{\n.reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1], %2, [%3], policy;\n}" ::"r"(
          SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
#else
  BulkCopy(to, from, bytes, barrier);
#endif
}

// Asks the L2 cache for whole pieces of 16 bytes of global memory, which a bulk
// copy of this block reads later. It changes no result.
DEVICE void HintL2(const void* from, uint32_t bytes) {
#if defined(__CUDACC__)
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from),
               "r"(bytes)
               : "memory");
#else
  Block::Current().NoteHint({from, bytes});
#endif
}

// --- dependent launches: a kernel may begin before the one before it has ended

// The next kernel may begin where there is room.
DEVICE void DependentsMayLaunch() {
#if defined(__CUDACC__)
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Until the kernel before has ended and what it wrote is there. Every thread
// that reads or writes what other kernels touch calls it first, or follows one
// that did.
DEVICE void WaitForPrevious() {
#if defined(__CUDACC__)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  Block::Current().WaitForPrevious();
#endif
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_DEVICE_H_
