#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/nn/cpu_backend.h"

namespace espalier::nn {
namespace {

// A build has the kernels of this machine alone, and asks for no others.
[[maybe_unused]] bool HasAvx2() {
  constexpr unsigned kF16c = 1u << 29;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0;
}

[[maybe_unused]] bool HasAvxVnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return HasAvx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kAvxVnni) != 0;
}

[[maybe_unused]] bool HasAvx512Bf16() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

// Linux hands out the tiles' large state only to a process that asks for it;
// after that every thread may use them.
bool AskForTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

[[maybe_unused]] bool HasAmx() {
  constexpr unsigned kTiles = 1u << 22 | 1u << 24 | 1u << 25;  // bf16 and int8
  unsigned a = 0, b = 0, c = 0, d = 0;
  return HasAvx512Bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & kTiles) == kTiles && AskForTiles();
}

}  // namespace

std::vector<const Kernels*> UsableBackends() {
  std::vector<const Kernels*> usable;
  // What was not built is not looked for.
  if constexpr (ESPALIER_HAS_AMX) {
    if (HasAmx()) usable.push_back(&AmxKernels());
  }
  if constexpr (ESPALIER_HAS_AVX512_BF16) {
    if (HasAvx512Bf16()) usable.push_back(&Avx512Bf16Kernels());
  }
  if constexpr (ESPALIER_HAS_AVX_VNNI) {
    if (HasAvxVnni()) usable.push_back(&AvxVnniKernels());
  }
  if constexpr (ESPALIER_HAS_AVX2) {
    if (HasAvx2()) usable.push_back(&Avx2Kernels());
  }
  if constexpr (ESPALIER_HAS_PORTABLE) {
    usable.push_back(&PortableKernels());
  }
  return usable;
}

}  // namespace espalier::nn
