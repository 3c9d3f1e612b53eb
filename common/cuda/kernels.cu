// The table of launches for a GPU: the launches' own sources, compiled by nvcc.
#include "common/cuda/launch/attention.cc"
#include "common/cuda/launch/cache.cc"
#include "common/cuda/launch/cuda_launch.h"
#include "common/cuda/launch/logits.cc"
#include "common/cuda/launch/memory.cc"
#include "common/cuda/launch/mixture.cc"
#include "common/cuda/launch/product.cc"
#include "common/cuda/launch/rows.cc"

namespace espalier::cuda {

int LaunchOnStream(void* stream, const KernelArgs& args, bool dependent) {
  cudaError_t error = cudaSuccess;
  LaunchKernel(
      CudaLauncher(static_cast<cudaStream_t>(stream), &error, dependent), args);
  return error;
}

}  // namespace espalier::cuda
