#include "common/nn/cpu_backend.h"

namespace espalier::nn {

std::vector<const Kernels*> UsableBackends() { return {&PortableKernels()}; }

}  // namespace espalier::nn
