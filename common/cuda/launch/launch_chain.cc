// Launches of chains: the instance for the rows.
#include <cstdlib>

#include "common/cuda/kernels/chain.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

template <int kRows, bool kIsE4m3>
void LaunchChain(const Launcher& launcher, const ChainArgs& args) {
  using Rings = ChainRings<kRows, kIsE4m3 ? kE4m3TileBytes : kWeightTileBytes>;
  launcher.Run<&Chain<kRows, kIsE4m3>>(
      {.kernel = kIsE4m3 ? "E4m3Chain" : "Chain",
       .grid_x = static_cast<unsigned>(args.blocks),
       .threads = kChainThreads,
       .shared_bytes = Rings::kSharedBytes,
       .is_resident = true},
      args);
}

template <bool kIsE4m3>
void LaunchForRows(const Launcher& launcher, const ChainArgs& args) {
  const int rows = RowBlock(args.products[0].rows);
  switch (rows) {
    case 16:
      return LaunchChain<16, kIsE4m3>(launcher, args);
    case 32:
      return LaunchChain<32, kIsE4m3>(launcher, args);
    case 64:
      return LaunchChain<64, kIsE4m3>(launcher, args);
    case 80:
      return LaunchChain<80, kIsE4m3>(launcher, args);
    default:
      break;
  }
  if constexpr (!kIsE4m3) {
    if (rows == 128) return LaunchChain<128, false>(launcher, args);
    if (rows == 144) return LaunchChain<144, false>(launcher, args);
  }
  std::abort();  // ChainFits
}

}  // namespace

void Launch(const Launcher& launcher, const ChainArgs& args) {
  if (args.products[0].scales == nullptr) {
    LaunchForRows<false>(launcher, args);
  } else {
    LaunchForRows<true>(launcher, args);
  }
}

}  // namespace espalier::cuda
