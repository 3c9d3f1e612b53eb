#include "tests/device/variants.h"

#include <cstdlib>

#include "common/cuda/launch/launches.h"
#include "tests/device/variant_kernels.h"

namespace espalier::cuda {
namespace {

template <int kGroups, int kRows>
void LaunchNarrow(const Launcher& launcher, const ProductArgs& args) {
  using Ring = ProductRing<kGroups, kRows, kWeightTileBytes>;
  launcher.Run<&NarrowProduct<kGroups, kRows>>(
      {.kernel = "NarrowProduct",
       .grid_y = static_cast<unsigned>(ProductParts(args, kGroups)),
       .threads = Ring::kThreads,
       .shared_bytes = Ring::kSharedBytes},
      args);
}

template <int kGroups>
void LaunchForRows(const Launcher& launcher, const ProductArgs& args) {
  switch (RowBlock(args.rows)) {
    case 80:
      return LaunchNarrow<kGroups, 80>(launcher, args);
    case 128:
      return LaunchNarrow<kGroups, 128>(launcher, args);
    case 144:
      return LaunchNarrow<kGroups, 144>(launcher, args);
    case 256:
      return LaunchNarrow<2, 256>(launcher, args);
    default:
      std::abort();  // NarrowProductArgs
  }
}

void Launch(const Launcher& launcher, const NarrowProductArgs& args) {
  if (ProductGroups(args.product.outputs) == 3) {
    LaunchForRows<3>(launcher, args.product);
  } else {
    LaunchForRows<2>(launcher, args.product);
  }
}

void Launch(const Launcher& launcher, const WideNormArgs& args) {
  const int threads = NormThreads(args.norm.hidden, kWideNormThreads);
  launcher.Run<&WideNorm>({.kernel = "WideNorm",
                           .grid_x = static_cast<unsigned>(args.norm.rows),
                           .threads = threads,
                           .shared_bytes = 2 * (threads / 32) * sizeof(float)},
                          args.norm);
}

void Launch(const Launcher& launcher, const PrefixArgs& args) {
  launcher.Run<&AttendPrefix<128, false>>(
      {.kernel = "AttendPrefix",
       .grid_x = static_cast<unsigned>(args.attend.num_prefix_items),
       .grid_y = static_cast<unsigned>(args.attend.kv_heads),
       .threads = kPrefixThreads,
       .shared_bytes = PageRing<128>::kSharedBytes},
      args.attend);
}

void Launch(const Launcher& launcher, const CompareSumsArgs& args) {
  launcher.Run<&CompareSums>({.kernel = "CompareSums",
                              .grid_x = static_cast<unsigned>(args.blocks),
                              .threads = 128,
                              .shared_bytes = kCompareShared},
                             args);
}

void Launch(const Launcher& launcher, const KernelArgs& args) {
  LaunchKernel(launcher, args);
}

}  // namespace

void LaunchVariant(const Launcher& launcher, const Variant& variant) {
  std::visit([&](const auto& args) { Launch(launcher, args); }, variant);
}

}  // namespace espalier::cuda
