// How a kernel gets onto a device: its shape, and what it is told. Kernels'
// pointers are known to the file that launches them alone.
#ifndef ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHER_H_
#define ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHER_H_

#include <cstddef>
#include <functional>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace espalier::cuda {

struct LaunchShape {
  const char* kernel = nullptr;  // its name
  unsigned grid_x = 1, grid_y = 1;
  int threads = 0;
  size_t shared_bytes = 0;
  // All blocks are on the device at once, or none begins. They may wait for
  // each other, and begin when the kernel before has ended.
  bool is_resident = false;
};

// Hands what is to run to an emulated device.
class EmulatedLauncher {
 public:
  using Shape = LaunchShape;
  using Enqueue = std::function<void(const Shape&, std::function<void()>)>;
  explicit EmulatedLauncher(Enqueue enqueue) : enqueue_(std::move(enqueue)) {}

  template <auto kKernel, typename Args>
  void Run(const Shape& shape, const Args& args) const {
    enqueue_(shape, [args] { kKernel(args); });
  }

 private:
  const Enqueue enqueue_;
};

#if defined(__CUDACC__)
// Puts kernels into a stream, each dependent on the one before (griddepcontrol)
// and, if `dependent`, free to begin before that has ended.
class CudaLauncher {
 public:
  using Shape = LaunchShape;
  CudaLauncher(cudaStream_t stream, cudaError_t* first_error,
               bool dependent = true)
      : stream_(stream), first_error_(first_error), dependent_(dependent) {}

  template <auto kKernel, typename Args>
  void Run(const Shape& shape, const Args& args) const {
    static const cudaError_t allowed = cudaFuncSetAttribute(
        kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10);
    Note(allowed);
    cudaLaunchAttribute attribute = {};
    if (shape.is_resident) {
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    } else {
      attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(shape.grid_x, shape.grid_y);
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream_;
    config.attrs = &attribute;
    config.numAttrs = shape.is_resident || dependent_ ? 1 : 0;
    Note(cudaLaunchKernelEx(&config, kKernel, args));
  }

 private:
  void Note(cudaError_t error) const {
    if (*first_error_ == cudaSuccess) *first_error_ = error;
  }

  const cudaStream_t stream_;
  cudaError_t* const first_error_;
  const bool dependent_;
};
using Launcher = CudaLauncher;
#else
using Launcher = EmulatedLauncher;
#endif

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHER_H_
