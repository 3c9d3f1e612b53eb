// Launches of what sends rows to experts.
#include "common/cuda/kernels/group_rows.h"
#include "common/cuda/kernels/place_rows.h"
#include "common/cuda/kernels/route.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

void Launch(const Launcher& launcher, const RouteArgs& args) {
  launcher.Run<&Route>({.kernel = "Route",
                        .grid_x = static_cast<unsigned>(args.rows),
                        .threads = kRouteWarps * 32,
                        .shared_bytes = sizeof(RouteMemory)},
                       args);
}

void Launch(const Launcher& launcher, const GroupRowsArgs& args) {
  launcher.Run<&GroupRows>({.kernel = "GroupRows",
                            .threads = kGroupThreads,
                            .shared_bytes = kGroupThreads / 32 * sizeof(int)},
                           args);
}

void Launch(const Launcher& launcher, const PlaceRowsArgs& args) {
  launcher.Run<&PlaceRows>({.kernel = "PlaceRows",
                            .grid_x = static_cast<unsigned>(args.rows),
                            .threads = kPlaceThreads},
                           args);
}

}  // namespace espalier::cuda
