// The laws for a GPU: their own source, compiled by nvcc.
#include "tests/device/laws.cc"

namespace espalier::cuda {

int RunLawOnGpu(Law law, const LawArgs& args) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  LaunchLaw(CudaLauncher(stream, &error), law, args);
  const cudaError_t done = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : done;
}

}  // namespace espalier::cuda
