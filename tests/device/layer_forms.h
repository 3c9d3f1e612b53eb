// Forms of a layer's chain beside the engine's, for the experiment that
// compares them and the test of their bits. Plain C++: nvcc and programs
// include it.
#ifndef ESPALIER_TESTS_DEVICE_LAYER_FORMS_H_
#define ESPALIER_TESTS_DEVICE_LAYER_FORMS_H_

#include "common/cuda/kernel_args.h"
#include "common/cuda/launch/launcher.h"

namespace espalier::cuda {

// Heads of 128, weights in bf16, 1 to 16 or 65 to 80 rows.
struct LayerFormArgs {
  LayerChainArgs layer;
  bool has_hints = false;  // as kHintsWeights
  int pages = 0;  // of the ring: 12 or 16 from 65 rows on; 0: all that fit
};

void LaunchLayerForm(const Launcher& launcher, const LayerFormArgs& args);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_LAYER_FORMS_H_
