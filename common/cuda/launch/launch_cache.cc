// Launches of what a round keeps.
#include "common/cuda/kernels/gather_taps.h"
#include "common/cuda/kernels/keep.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

void Launch(const Launcher& launcher, const KeepArgs& args) {
  launcher.Run<&Keep>({.kernel = "Keep",
                       .grid_x = static_cast<unsigned>(args.panels),
                       .grid_y = static_cast<unsigned>(args.num_sequences),
                       .threads = kKeepThreads},
                      args);
}

void Launch(const Launcher& launcher, const GatherTapsArgs& args) {
  launcher.Run<&GatherTaps>({.kernel = "GatherTaps",
                             .grid_x = static_cast<unsigned>(args.num_kept),
                             .grid_y = static_cast<unsigned>(args.num_taps),
                             .threads = kGatherTapsThreads},
                            args);
}

}  // namespace espalier::cuda
