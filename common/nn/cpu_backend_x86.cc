#include "common/nn/cpu_backend.h"

namespace espalier::nn {

std::vector<const Kernels*> UsableBackends() {
  std::vector<const Kernels*> usable;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back(&Avx2Kernels());
  }
  usable.push_back(&PortableKernels());
  return usable;
}

}  // namespace espalier::nn
