#include "tests/device/variants.h"

#include <cstdlib>

#include "common/cuda/launch/launches.h"
#include "tests/device/variant_kernels.h"

namespace espalier::cuda {
namespace {

struct Narrow {
  static constexpr char kName[] = "NarrowProduct";
  template <int kGroups, int kRows>
  static constexpr auto kKernel = &NarrowProduct<kGroups, kRows>;
};
struct Rowless {
  static constexpr char kName[] = "RowlessProduct";
  template <int kGroups, int kRows>
  static constexpr auto kKernel = &RowlessProduct<kGroups, kRows>;
};

// Form: Narrow or Rowless.
template <typename Form, int kGroups, int kRows>
void LaunchProduct(const Launcher& launcher, const ProductArgs& args) {
  using Ring = ProductRing<kGroups, kRows, kWeightTileBytes>;
  launcher.Run<Form::template kKernel<kGroups, kRows>>(
      {.kernel = Form::kName,
       .grid_y = static_cast<unsigned>(ProductParts(args, kGroups)),
       .threads = Ring::kThreads,
       .shared_bytes = Ring::kSharedBytes},
      args);
}

template <typename Form, int kGroups>
void LaunchForRows(const Launcher& launcher, const ProductArgs& args) {
  switch (RowBlock(args.rows)) {
    case 64:
      return LaunchProduct<Form, kGroups, 64>(launcher, args);
    case 80:
      return LaunchProduct<Form, kGroups, 80>(launcher, args);
    case 128:
      return LaunchProduct<Form, kGroups, 128>(launcher, args);
    case 144:
      return LaunchProduct<Form, kGroups, 144>(launcher, args);
    case 256:
      return LaunchProduct<Form, 2, 256>(launcher, args);
    default:
      std::abort();  // few rows: no such form
  }
}

template <typename Form>
void LaunchForm(const Launcher& launcher, const ProductArgs& args) {
  if (ProductGroups(args.outputs) == 3) {
    LaunchForRows<Form, 3>(launcher, args);
  } else {
    LaunchForRows<Form, 2>(launcher, args);
  }
}

void Launch(const Launcher& launcher, const NarrowProductArgs& args) {
  LaunchForm<Narrow>(launcher, args.product);
}

void Launch(const Launcher& launcher, const RowlessProductArgs& args) {
  LaunchForm<Rowless>(launcher, args.product);
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

void Launch(const Launcher& launcher, const HandOverArgs& args) {
  launcher.Run<&HandOver>({.kernel = "HandOver",
                           .grid_x = static_cast<unsigned>(args.waiters + 1),
                           .threads = 32,
                           .is_resident = true},
                          args);
}

void Launch(const Launcher& launcher, const CompareSumsArgs& args) {
  const LaunchShape shape = {.kernel = "CompareSums",
                             .grid_x = static_cast<unsigned>(args.blocks),
                             .threads = 128,
                             .shared_bytes = kCompareShared};
  if (args.is_held) {
    launcher.Run<&CompareSums<true>>(shape, args);
  } else {
    launcher.Run<&CompareSums<false>>(shape, args);
  }
}

void Launch(const Launcher& launcher, const LayerFormArgs& args) {
  LaunchLayerForm(launcher, args);
}

void Launch(const Launcher& launcher, const KernelArgs& args) {
  LaunchKernel(launcher, args);
}

}  // namespace

void LaunchVariant(const Launcher& launcher, const Variant& variant) {
  std::visit([&](const auto& args) { Launch(launcher, args); }, variant);
}

}  // namespace espalier::cuda
