// Launches of layers as chains from attention on: the instance for the rows and
// the size of a head.
#include <cstdlib>

#include "common/cuda/kernels/layer_chain.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

template <int kRows, bool kIsE4m3, int kDim>
void LaunchLayer(const Launcher& launcher, const LayerChainArgs& args) {
  launcher.Run<&LayerChain<kRows, kIsE4m3, kDim>>(
      {.kernel = kIsE4m3 ? "E4m3LayerChain" : "LayerChain",
       .grid_x = static_cast<unsigned>(args.chain.blocks),
       .threads = kLayerThreads,
       .shared_bytes = LayerRings<kRows, kIsE4m3>::kSharedBytes,
       .is_resident = true},
      args);
}

template <bool kIsE4m3, int kDim>
void LaunchLayerForRows(const Launcher& launcher, const LayerChainArgs& args) {
  const int rows = RowBlock(args.prepare.num_rows);
  switch (rows) {
    case 16:
      return LaunchLayer<16, kIsE4m3, kDim>(launcher, args);
    case 32:
      return LaunchLayer<32, kIsE4m3, kDim>(launcher, args);
    case 64:
      return LaunchLayer<64, kIsE4m3, kDim>(launcher, args);
    case 80:
      return LaunchLayer<80, kIsE4m3, kDim>(launcher, args);
    default:
      break;
  }
  if constexpr (!kIsE4m3) {
    if (rows == 128) return LaunchLayer<128, false, kDim>(launcher, args);
    if (rows == 144) return LaunchLayer<144, false, kDim>(launcher, args);
  }
  std::abort();  // LayerChainFits
}

template <int kDim>
void LaunchLayerOf(const Launcher& launcher, const LayerChainArgs& args) {
  if (args.chain.products[0].scales == nullptr) {
    LaunchLayerForRows<false, kDim>(launcher, args);
  } else {
    LaunchLayerForRows<true, kDim>(launcher, args);
  }
}

}  // namespace

void Launch(const Launcher& launcher, const LayerChainArgs& args) {
  if (args.attend.head_dim == 64) {
    LaunchLayerOf<64>(launcher, args);
  } else {
    LaunchLayerOf<128>(launcher, args);
  }
}

}  // namespace espalier::cuda
