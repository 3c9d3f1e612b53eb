#ifndef ESPALIER_COMMON_CUDA_LAUNCH_CUDA_LAUNCH_H_
#define ESPALIER_COMMON_CUDA_LAUNCH_CUDA_LAUNCH_H_

#include "common/cuda/kernel_args.h"

namespace espalier::cuda {

// `stream`: a cudaStream_t. `dependent`: see CudaDeviceOptions. Returns the
// first cudaError_t, 0: none.
int LaunchOnStream(void* stream, const KernelArgs& args, bool dependent);

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_LAUNCH_CUDA_LAUNCH_H_
