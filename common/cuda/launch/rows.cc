// Launches of what takes a row of the residual stream at a time.
#include "common/cuda/kernels/embed.h"
#include "common/cuda/kernels/residual_norm.h"
#include "common/cuda/kernels/take_rows.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

void Launch(const Launcher& launcher, const EmbedArgs& args) {
  launcher.Run<&Embed>({.kernel = "Embed",
                        .grid_x = static_cast<unsigned>(args.rows),
                        .threads = kEmbedThreads},
                       args);
}

void Launch(const Launcher& launcher, const ResidualNormArgs& args) {
  launcher.Run<&ResidualNorm>(
      {.kernel = "ResidualNorm",
       .grid_x = static_cast<unsigned>(args.rows),
       .threads = kNormThreads,
       .shared_bytes = static_cast<size_t>(RowNormShared(args.hidden))},
      args);
}

void Launch(const Launcher& launcher, const TakeRowsArgs& args) {
  launcher.Run<&TakeRows>(
      {.kernel = "TakeRows",
       .grid_x = static_cast<unsigned>(args.rows),
       .threads = kNormThreads,
       .shared_bytes = static_cast<size_t>(RowNormShared(args.columns))},
      args);
}

}  // namespace espalier::cuda
