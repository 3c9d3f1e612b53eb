// The variants for a GPU: their own source, compiled by nvcc.
#include "tests/device/launch_layer_forms.cc"
#include "tests/device/variants.cc"

namespace espalier::cuda {

int OpenGpuQueue(void** queue) {
  return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(queue),
                                   cudaStreamNonBlocking);
}

int LaunchOnGpu(void* queue, const Variant& variant) {
  cudaError_t error = cudaSuccess;
  LaunchVariant(CudaLauncher(static_cast<cudaStream_t>(queue), &error),
                variant);
  return error;
}

int WaitForGpu(void* queue) {
  return cudaStreamSynchronize(static_cast<cudaStream_t>(queue));
}

}  // namespace espalier::cuda
