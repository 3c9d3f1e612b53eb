// Launches of chains: the instance for the rows.
#include <cstdlib>

#include "common/cuda/kernels/chain.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {
namespace {

template <int kRows>
void LaunchChain(const Launcher& launcher, const ChainArgs& args) {
  launcher.Run<&Chain<kRows>>({.kernel = "Chain",
                               .grid_x = static_cast<unsigned>(args.blocks),
                               .threads = kChainThreads,
                               .shared_bytes = ChainRings<kRows>::kSharedBytes,
                               .is_resident = true},
                              args);
}

}  // namespace

void Launch(const Launcher& launcher, const ChainArgs& args) {
  switch (RowBlock(args.products[0].rows)) {
    case 16:
      return LaunchChain<16>(launcher, args);
    case 32:
      return LaunchChain<32>(launcher, args);
    case 64:
      return LaunchChain<64>(launcher, args);
    case 80:
      return LaunchChain<80>(launcher, args);
    case 128:
      return LaunchChain<128>(launcher, args);
    case 144:
      return LaunchChain<144>(launcher, args);
    default:
      std::abort();  // ChainFits
  }
}

}  // namespace espalier::cuda
