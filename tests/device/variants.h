// Other forms of kernels, which `tune` compares with those of an engine. Plain
// C++: nvcc and the program include it.
#ifndef ESPALIER_TESTS_DEVICE_VARIANTS_H_
#define ESPALIER_TESTS_DEVICE_VARIANTS_H_

#include <cstdint>
#include <variant>

#include "common/cuda/kernel_args.h"
#include "common/cuda/launch/launcher.h"
#include "tests/device/layer_forms.h"

namespace espalier::cuda {

// A product by instructions of at most 64 rows. bf16, more than 64 rows.
struct NarrowProductArgs {
  ProductArgs product;
};

// A product whose rows are not brought, so that its sums are of whatever lies
// in shared memory: what rows cost. bf16, at most 256 rows.
struct RowlessProductArgs {
  ProductArgs product;
};

// A norm by 1024 threads of one quad each. hidden: at most 4096.
struct WideNormArgs {
  ResidualNormArgs norm;
};

// The items of a prefix alone, of heads of 128 without a window.
struct PrefixArgs {
  AttendArgs attend;
};

// A block signals all others by a counter, and waits until all have signalled
// back, again and again. All blocks stay.
struct HandOverArgs {
  uint32_t* counters = nullptr;  // [kHandOverWords] starts as zeros
  uint32_t before = 0;           // rounds of launches before this
  uint32_t rounds = 0;
  int waiters = 0;         // blocks beside the first
  bool is_fenced = false;  // as for numbers that bulk copies read
};
inline constexpr int kHandOverWords = 96;  // in lines of a cache of their own

// Products of a warpgroup beside those of warps, 64 x 64 sums over 64 inputs in
// each block of threads, on numbers of a kind.
enum class Numbers : int { kLikeWeights, kFarApart, kDenormal, kCancelling };
inline constexpr Numbers kAllNumbers[] = {
    Numbers::kLikeWeights, Numbers::kFarApart, Numbers::kDenormal,
    Numbers::kCancelling};
struct CompareSumsArgs {
  Numbers numbers = Numbers::kLikeWeights;
  uint32_t seed = 0;
  int blocks = 0;
  bool is_held = false;           // the warpgroup's first factor in registers
  uint32_t* different = nullptr;  // counts the sums whose bits differ
};
inline constexpr int kSumsOfBlock = 64 * 64;

using Variant = std::variant<KernelArgs, NarrowProductArgs, RowlessProductArgs,
                             WideNormArgs, PrefixArgs, HandOverArgs,
                             CompareSumsArgs, LayerFormArgs>;

void LaunchVariant(const Launcher& launcher, const Variant& variant);

// A queue on the GPU. Each returns the first cudaError_t, 0: none. In a program
// that nvcc had no part in: never called.
int OpenGpuQueue(void** queue);
int LaunchOnGpu(void* queue, const Variant& variant);
int WaitForGpu(void* queue);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_VARIANTS_H_
