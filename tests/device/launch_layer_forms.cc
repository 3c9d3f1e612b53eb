#include <cstdlib>

#include "common/cuda/kernels/layer_chain.h"
#include "tests/device/layer_forms.h"

namespace espalier::cuda {
namespace {

// Grid: as LayerChain.
template <int kRows, bool kHints, int kMaxPages>
__global__ void __launch_bounds__(kLayerThreads, 1)
    LayerForm(const __grid_constant__ LayerChainArgs args) {
  SHARED_MEMORY(shared);
  RunLayer<kRows, false, 128, kHints>(
      args, LayerRings<kRows, false, kMaxPages>(shared));
}

template <int kRows, bool kHints, int kMaxPages = kMaxChainPages>
void RunForm(const Launcher& launcher, const LayerChainArgs& args) {
  launcher.Run<&LayerForm<kRows, kHints, kMaxPages>>(
      {.kernel = "LayerForm",
       .grid_x = static_cast<unsigned>(args.chain.blocks),
       .threads = kLayerThreads,
       .shared_bytes = LayerRings<kRows, false, kMaxPages>::kSharedBytes,
       .is_resident = true},
      args);
}

template <bool kHints>
void RunFormOfRows(const Launcher& launcher, const LayerFormArgs& args) {
  const LayerChainArgs& layer = args.layer;
  const int rows = RowBlock(layer.prepare.num_rows);
  if (rows == 80 && args.pages == 12) {
    RunForm<80, kHints, 12>(launcher, layer);
  } else if (rows == 80 && args.pages == 16) {
    RunForm<80, kHints, 16>(launcher, layer);
  } else if (rows == 80 && args.pages == 0) {
    RunForm<80, kHints>(launcher, layer);
  } else if (rows == 16 && args.pages == 0) {
    RunForm<16, kHints>(launcher, layer);
  } else {
    std::abort();  // there is no such form
  }
}

}  // namespace

void LaunchLayerForm(const Launcher& launcher, const LayerFormArgs& args) {
  if (args.has_hints) {
    RunFormOfRows<true>(launcher, args);
  } else {
    RunFormOfRows<false>(launcher, args);
  }
}

}  // namespace espalier::cuda
