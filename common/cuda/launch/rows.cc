// Launches of what takes a row of the residual stream at a time.
#include <cstdlib>

#include "common/cuda/kernels/embed.h"
#include "common/cuda/kernels/residual_norm.h"
#include "common/cuda/kernels/take_rows.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

LaunchShape ShapeOf(const char* kernel, int rows, int columns) {
  const int threads = NormThreads(columns);
  return {.kernel = kernel,
          .grid_x = static_cast<unsigned>(rows),
          .threads = threads,
          .shared_bytes = threads / 32 * sizeof(float)};
}

}  // namespace

void Launch(const Launcher& launcher, const EmbedArgs& args) {
  launcher.Run<&Embed>({.kernel = "Embed",
                        .grid_x = static_cast<unsigned>(args.rows),
                        .threads = kEmbedThreads},
                       args);
}

void Launch(const Launcher& launcher, const ResidualNormArgs& args) {
  const LaunchShape shape = ShapeOf("ResidualNorm", args.rows, args.hidden);
  switch (NormQuads(args.hidden)) {
    case 1:
      return launcher.Run<&ResidualNorm<1>>(shape, args);
    case 2:
      return launcher.Run<&ResidualNorm<2>>(shape, args);
    case 4:
      return launcher.Run<&ResidualNorm<4>>(shape, args);
    case 8:
      return launcher.Run<&ResidualNorm<8>>(shape, args);
    default:
      std::abort();  // more than kMostNormColumns
  }
}

void Launch(const Launcher& launcher, const TakeRowsArgs& args) {
  const LaunchShape shape = ShapeOf("TakeRows", args.rows, args.columns);
  switch (NormQuads(args.columns)) {
    case 1:
      return launcher.Run<&TakeRows<1>>(shape, args);
    case 2:
      return launcher.Run<&TakeRows<2>>(shape, args);
    case 4:
      return launcher.Run<&TakeRows<4>>(shape, args);
    case 8:
      return launcher.Run<&TakeRows<8>>(shape, args);
    default:
      std::abort();  // more than kMostNormColumns
  }
}

}  // namespace espalier::cuda
