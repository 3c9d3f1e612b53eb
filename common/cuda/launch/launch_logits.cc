// Launches of what reads logits where they are.
#include "common/cuda/kernels/draw.h"
#include "common/cuda/kernels/filter.h"
#include "common/cuda/kernels/gather.h"
#include "common/cuda/kernels/perturb.h"
#include "common/cuda/kernels/rank.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

LaunchShape RowShape(const char* kernel, const LogitBlock& logits,
                     size_t shared_bytes) {
  return {.kernel = kernel,
          .grid_x = static_cast<unsigned>(logits.rows),
          .threads = kRowThreads,
          .shared_bytes = shared_bytes};
}

}  // namespace

void Launch(const Launcher& launcher, const DrawArgs& args) {
  const auto chunks = static_cast<unsigned>(DrawChunks(args.logits.vocab));
  const auto rows = static_cast<unsigned>(args.logits.rows);
  constexpr size_t kShared = kDrawWarps * sizeof(float);
  launcher.Run<&DrawOfChunks>({.kernel = "DrawOfChunks",
                               .grid_x = chunks,
                               .grid_y = rows,
                               .threads = kDrawThreads,
                               .shared_bytes = kShared},
                              args);
  launcher.Run<&DrawOfRows>({.kernel = "DrawOfRows",
                             .grid_x = rows,
                             .threads = kDrawThreads,
                             .shared_bytes = kShared},
                            args);
}

void Launch(const Launcher& launcher, const FilterArgs& args) {
  launcher.Run<&Filter>(RowShape("Filter", args.logits, sizeof(SelectMemory)),
                        args);
}

void Launch(const Launcher& launcher, const PerturbArgs& args) {
  const auto ranges = static_cast<unsigned>(
      (args.logits.vocab + kPerturbColumns - 1) / kPerturbColumns);
  launcher.Run<&Perturb>({.kernel = "Perturb",
                          .grid_x = ranges,
                          .grid_y = static_cast<unsigned>(args.logits.rows),
                          .threads = kPerturbThreads},
                         args);
}

void Launch(const Launcher& launcher, const RankArgs& args) {
  LaunchShape shape = {
      .kernel = "RankOfParts",
      .grid_x = static_cast<unsigned>(RankParts(args.logits.vocab)),
      .grid_y = static_cast<unsigned>(args.logits.rows),
      .threads = kRowThreads,
      .shared_bytes = sizeof(RankMemory)};
  launcher.Run<&RankOfParts>(shape, args);
  shape.kernel = "RankOfRows";
  shape.shared_bytes = sizeof(MergeMemory);
  launcher.Run<&RankOfRows>(shape, args);
}

void Launch(const Launcher& launcher, const GatherArgs& args) {
  launcher.Run<&Gather>(
      RowShape("Gather", args.logits, kRowWarps * sizeof(mass_t)), args);
}

}  // namespace espalier::cuda
