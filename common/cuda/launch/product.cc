// Launches of products: the instance for the weights' shape and the rows.
#include "common/cuda/kernels/product.h"

#include "common/cuda/kernels/e4m3_product.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

template <int kGroups, int kRows, int kWeightBytes>
LaunchShape ShapeOf(const char* kernel, const ProductArgs& args) {
  using Ring = ProductRing<kGroups, kRows, kWeightBytes>;
  const int strips = args.outputs / kStripOutputs;
  const int splits =
      args.gated == nullptr ? ProductSplits(args.outputs, args.inputs) : 1;
  return {.kernel = kernel,
          .grid_x =
              static_cast<unsigned>((strips + kGroups - 1) / kGroups * splits),
          .grid_y = static_cast<unsigned>((args.rows + kRows - 1) / kRows),
          .threads = Ring::kThreads,
          .shared_bytes = Ring::kSharedBytes};
}

template <int kGroups, int kRows>
void LaunchProduct(const Launcher& launcher, const ProductArgs& args) {
  if (args.scales == nullptr) {
    launcher.Run<&Product<kGroups, kRows>>(
        ShapeOf<kGroups, kRows, kWeightTileBytes>("Product", args), args);
  } else {
    launcher.Run<&E4m3Product<kGroups, kRows>>(
        ShapeOf<kGroups, kRows, kE4m3TileBytes>("E4m3Product", args), args);
  }
}

template <int kGroups>
void LaunchForRows(const Launcher& launcher, const ProductArgs& args) {
  switch (RowBlock(args.rows)) {
    case 16:
      return LaunchProduct<kGroups, 16>(launcher, args);
    case 32:
      return LaunchProduct<kGroups, 32>(launcher, args);
    case 64:
      return LaunchProduct<kGroups, 64>(launcher, args);
    case 128:
      return LaunchProduct<kGroups, 128>(launcher, args);
    default:
      // With a third warpgroup the sums would not fit the registers.
      return LaunchProduct<2, 256>(launcher, args);
  }
}

}  // namespace

void Launch(const Launcher& launcher, const ProductArgs& args) {
  if (ProductGroups(args.outputs) == 3) {
    LaunchForRows<3>(launcher, args);
  } else {
    LaunchForRows<2>(launcher, args);
  }
}

}  // namespace espalier::cuda
