// The probes for a GPU: their own source, compiled by nvcc.
#include "tests/device/probes.cc"

namespace espalier::cuda {

int RunProbeOnGpu(Probe probe, const ProbeArgs& args) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  LaunchProbe(CudaLauncher(stream, &error), probe, args);
  const cudaError_t done = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : done;
}

}  // namespace espalier::cuda
