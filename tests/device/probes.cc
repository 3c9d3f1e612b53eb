#include "tests/device/probes.h"

#include "tests/device/probe_kernels.h"

namespace espalier::cuda {
namespace {

template <int kN, bool kHeld>
void LaunchGroupMultiply(const Launcher& launcher, const ProbeArgs& args) {
  launcher.Run<&GroupMultiplyProbe<kN, kHeld>>(
      {.kernel = "GroupMultiplyProbe",
       .threads = 128,
       .shared_bytes = (64 + kN) * kTileRowBytes + 8},
      args);
}

void LaunchDependents(const Launcher& launcher, ProbeArgs args) {
  for (int i = 0; i < kProbeDependents; ++i) {
    args.parameter = 37 * i;
    launcher.Run<&DependentProbe>({.kernel = "DependentProbe",
                                   .grid_x = kProbeBlocks,
                                   .threads = kProbeThreads},
                                  args);
  }
}

}  // namespace

void LaunchProbe(const Launcher& launcher, Probe probe, const ProbeArgs& args) {
  const LaunchShape plain = {.kernel = "Probe", .threads = kProbeThreads};
  const LaunchShape warp = {
      .kernel = "Probe", .threads = 32, .shared_bytes = kProbeShared};
  switch (probe) {
    case Probe::kPack:
      return launcher.Run<&PackProbe>(plain, args);
    case Probe::kWiden:
      return launcher.Run<&WidenProbe>(plain, args);
    case Probe::kWidenE4m3:
      return launcher.Run<&WidenE4m3Probe>(plain, args);
    case Probe::kFunctions:
      return launcher.Run<&FunctionProbe>(plain, args);
    case Probe::kLoad:
      return launcher.Run<&LoadProbe<false>>(warp, args);
    case Probe::kLoadTransposed:
      return launcher.Run<&LoadProbe<true>>(warp, args);
    case Probe::kWarpMultiply:
      return launcher.Run<&WarpMultiplyProbe>(warp, args);
    case Probe::kGroupMultiply16:
      return LaunchGroupMultiply<16, false>(launcher, args);
    case Probe::kGroupMultiply32:
      return LaunchGroupMultiply<32, false>(launcher, args);
    case Probe::kGroupMultiply64:
      return LaunchGroupMultiply<64, false>(launcher, args);
    case Probe::kGroupMultiply80:
      return LaunchGroupMultiply<80, false>(launcher, args);
    case Probe::kGroupMultiply128:
      return LaunchGroupMultiply<128, false>(launcher, args);
    case Probe::kGroupMultiply144:
      return LaunchGroupMultiply<144, false>(launcher, args);
    case Probe::kGroupMultiply256:
      return LaunchGroupMultiply<256, false>(launcher, args);
    case Probe::kGroupMultiplyHeld16:
      return LaunchGroupMultiply<16, true>(launcher, args);
    case Probe::kGroupMultiplyHeld32:
      return LaunchGroupMultiply<32, true>(launcher, args);
    case Probe::kGroupMultiplyHeld64:
      return LaunchGroupMultiply<64, true>(launcher, args);
    case Probe::kGroupMultiplyHeld80:
      return LaunchGroupMultiply<80, true>(launcher, args);
    case Probe::kGroupMultiplyHeld128:
      return LaunchGroupMultiply<128, true>(launcher, args);
    case Probe::kGroupMultiplyHeld144:
      return LaunchGroupMultiply<144, true>(launcher, args);
    case Probe::kGroupMultiplyHeld256:
      return LaunchGroupMultiply<256, true>(launcher, args);
    case Probe::kRegisters:
      return launcher.Run<&RegistersProbe>({.kernel = "RegistersProbe",
                                            .grid_x = kProbeBlocks,
                                            .threads = kProbeGroups * 128},
                                           args);
    case Probe::kPhases:
      return launcher.Run<&PhaseProbe>({.kernel = "PhaseProbe",
                                        .threads = kProbeThreads,
                                        .shared_bytes = kProbeThreads * 4 + 8},
                                       args);
    case Probe::kDependent:
      return LaunchDependents(launcher, args);
    case Probe::kHandOver:
      return launcher.Run<&HandOverProbeKernel>(
          {.kernel = "HandOverProbe",
           .grid_x = kProbeResidents,
           .threads = kProbeThreads,
           .shared_bytes = kProbeThreads * 4 + 8,
           .is_resident = true},
          args);
  }
}

}  // namespace espalier::cuda
