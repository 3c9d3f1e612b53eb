// Probes: kernels that do what one instruction does, on a GPU and emulated.
// Plain C++: nvcc and the test include it.
#ifndef ESPALIER_TESTS_DEVICE_PROBES_H_
#define ESPALIER_TESTS_DEVICE_PROBES_H_

#include <cstdint>

#include "common/cuda/launch/launcher.h"

namespace espalier::cuda {

enum class Probe {
  kPack,
  kWiden,
  kWidenE4m3,
  kFunctions,
  kLoad,
  kLoadTransposed,
  kWarpMultiply,
  kGroupMultiply16,
  kGroupMultiply32,
  kGroupMultiply64,
  kGroupMultiply80,
  kGroupMultiply128,
  kGroupMultiply144,
  kGroupMultiply256,
  kGroupMultiplyHeld16,
  kGroupMultiplyHeld32,
  kGroupMultiplyHeld64,
  kGroupMultiplyHeld80,
  kGroupMultiplyHeld128,
  kGroupMultiplyHeld144,
  kGroupMultiplyHeld256,
  kRegisters,
  kPhases,
  kDependent,
  kHandOver,
};

struct ProbeArgs {
  const unsigned char* in = nullptr;
  unsigned char* out = nullptr;
  int parameter = 0;
};

inline constexpr int kProbeThreads = 256;
inline constexpr int kProbeGroups = 4;  // warpgroups of kRegisters
inline constexpr int kProbeHeld = 136;  // numbers that a thread of it holds
inline constexpr int kProbePhases = 5;
inline constexpr int kProbeShared = 4096;
inline constexpr int kProbeBlocks = 300;     // of kDependent
inline constexpr int kProbeDependents = 40;  // launches of kDependent

inline constexpr int kProbeResidents = 32;  // blocks of kHandOver

// kHandOver's memory. Starts as zeros.
struct HandOverProbe {
  uint32_t rounds = 0;
  uint32_t wrong = 0;           // numbers that were not those of their round
  uint32_t last = 0;            // blocks that were the last to leave
  uint32_t done = 0, left = 0;  // counters
  alignas(16) uint32_t values[2][kProbeResidents][kProbeThreads] = {};
};

// Registers of the lanes of a warp.
struct WarpProbeInput {
  uint32_t a[32][4];
  uint32_t b[32][2];
  float sums[32][4];
};

// Queues the kernels of a probe.
void LaunchProbe(const Launcher& launcher, Probe probe, const ProbeArgs& args);

// Runs a probe on the GPU. Returns the first cudaError_t, 0: none. In a program
// that nvcc had no part in: never called.
int RunProbeOnGpu(Probe probe, const ProbeArgs& args);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_PROBES_H_
