#include "tests/device/laws.h"

#include "tests/device/law_kernels.h"

namespace espalier::cuda {
namespace {

template <int kN>
void LaunchGroupMultiply(const Launcher& launcher, const LawArgs& args) {
  launcher.Run<&GroupMultiplyLaw<kN>>(
      {.kernel = "GroupMultiplyLaw",
       .threads = 128,
       .shared_bytes = (64 + kN) * kTileRowBytes + 8},
      args);
}

void LaunchDependents(const Launcher& launcher, LawArgs args) {
  for (int i = 0; i < kLawDependents; ++i) {
    args.parameter = 37 * i;
    launcher.Run<&DependentLaw>({.kernel = "DependentLaw",
                                 .grid_x = kLawBlocks,
                                 .threads = kLawThreads},
                                args);
  }
}

}  // namespace

void LaunchLaw(const Launcher& launcher, Law law, const LawArgs& args) {
  const LaunchShape plain = {.kernel = "Law", .threads = kLawThreads};
  const LaunchShape warp = {
      .kernel = "Law", .threads = 32, .shared_bytes = kLawShared};
  switch (law) {
    case Law::kPack:
      return launcher.Run<&PackLaw>(plain, args);
    case Law::kWiden:
      return launcher.Run<&WidenLaw>(plain, args);
    case Law::kFunctions:
      return launcher.Run<&FunctionLaw>(plain, args);
    case Law::kLoad:
      return launcher.Run<&LoadLaw<false>>(warp, args);
    case Law::kLoadTransposed:
      return launcher.Run<&LoadLaw<true>>(warp, args);
    case Law::kWarpMultiply:
      return launcher.Run<&WarpMultiplyLaw>(warp, args);
    case Law::kGroupMultiply16:
      return LaunchGroupMultiply<16>(launcher, args);
    case Law::kGroupMultiply32:
      return LaunchGroupMultiply<32>(launcher, args);
    case Law::kGroupMultiply64:
      return LaunchGroupMultiply<64>(launcher, args);
    case Law::kPhases:
      return launcher.Run<&PhaseLaw>({.kernel = "PhaseLaw",
                                      .threads = kLawThreads,
                                      .shared_bytes = kLawThreads * 4 + 8},
                                     args);
    case Law::kDependent:
      return LaunchDependents(launcher, args);
  }
}

}  // namespace espalier::cuda
