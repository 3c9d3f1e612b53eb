// The laws of a GPU's instructions that the kernels rely on, as kernels that
// run on a GPU and emulated. Plain C++: nvcc and the test include it.
#ifndef ESPALIER_TESTS_DEVICE_LAWS_H_
#define ESPALIER_TESTS_DEVICE_LAWS_H_

#include <cstdint>

#include "common/cuda/launch/launcher.h"

namespace espalier::cuda {

enum class Law {
  kPack,
  kWiden,
  kFunctions,
  kLoad,
  kLoadTransposed,
  kWarpMultiply,
  kGroupMultiply16,
  kGroupMultiply32,
  kGroupMultiply64,
  kPhases,
  kDependent,
};

struct LawArgs {
  const unsigned char* in = nullptr;
  unsigned char* out = nullptr;
  int parameter = 0;
};

inline constexpr int kLawThreads = 256;
inline constexpr int kLawPhases = 5;
inline constexpr int kLawShared = 4096;
inline constexpr int kLawBlocks = 300;     // of kDependent
inline constexpr int kLawDependents = 40;  // launches of kDependent

// Registers of the lanes of a warp.
struct WarpLawInput {
  uint32_t a[32][4];
  uint32_t b[32][2];
  float sums[32][4];
};

// Queues the kernels of a law.
void LaunchLaw(const Launcher& launcher, Law law, const LawArgs& args);

// Runs a law on the GPU. Returns the first cudaError_t, 0: none. In a program
// that nvcc had no part in: never called.
int RunLawOnGpu(Law law, const LawArgs& args);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_LAWS_H_
