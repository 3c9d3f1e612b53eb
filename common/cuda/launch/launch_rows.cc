// Launches of what takes a row of the residual stream at a time.
#include <cstdlib>
#include <type_traits>

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
          .shared_bytes = 2 * (threads / 32) * sizeof(float)};
}

// act: given the quads of a thread as a constant.
template <typename Act>
void WithQuads(int columns, Act act) {
  switch (NormQuads(columns)) {
    case 1:
      return act(std::integral_constant<int, 1>());
    case 2:
      return act(std::integral_constant<int, 2>());
    case 4:
      return act(std::integral_constant<int, 4>());
    case 8:
      return act(std::integral_constant<int, 8>());
    case 16:
      return act(std::integral_constant<int, 16>());
    default:
      std::abort();  // more than kMaxNormColumns
  }
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
  WithQuads(args.hidden, [&](auto quads) {
    constexpr int kQuads = decltype(quads)::value;
    if (args.added_weight == nullptr) {
      launcher.Run<&ResidualNorm<kQuads, false>>(shape, args);
    } else if constexpr (4 * kQuads * kMaxNormThreads <= kMaxAddedColumns) {
      launcher.Run<&ResidualNorm<kQuads, true>>(shape, args);
    } else {
      std::abort();  // CheckCudaCovers
    }
  });
}

void Launch(const Launcher& launcher, const TakeRowsArgs& args) {
  const LaunchShape shape = ShapeOf("TakeRows", args.rows, args.columns);
  WithQuads(args.columns, [&](auto quads) {
    launcher.Run<&TakeRows<decltype(quads)::value>>(shape, args);
  });
}

}  // namespace espalier::cuda
