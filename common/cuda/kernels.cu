// The table of launches for a GPU: the launches' own sources, compiled by nvcc.
#include "common/cuda/launch/cuda_launch.h"
#include "common/cuda/launch/launch_attention.cc"
#include "common/cuda/launch/launch_cache.cc"
#include "common/cuda/launch/launch_chain.cc"
#include "common/cuda/launch/launch_layer.cc"
#include "common/cuda/launch/launch_logits.cc"
#include "common/cuda/launch/launch_memory.cc"
#include "common/cuda/launch/launch_mixture.cc"
#include "common/cuda/launch/launch_product.cc"
#include "common/cuda/launch/launch_rows.cc"

namespace espalier::cuda {

int LaunchOnStream(void* stream, const KernelArgs& args, bool dependent) {
  cudaError_t error = cudaSuccess;
  LaunchKernel(
      CudaLauncher(static_cast<cudaStream_t>(stream), &error, dependent), args);
  return error;
}

}  // namespace espalier::cuda
