#ifndef ESPALIER_COMMON_MODEL_CUDA_LAUNCH_GRAPHS_H_
#define ESPALIER_COMMON_MODEL_CUDA_LAUNCH_GRAPHS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "common/cuda/compute_device.h"

namespace espalier {

// Queues the kernels of passes. Kernels that come a second time with exactly
// the same arguments become a graph of the device, and from then on are queued
// as one. A graph that cannot be made is not missed: its kernels are launched.
// Memory that a graph's kernels use may be gone: then no pass names it, so the
// graph is not replayed, until other memory lies there and is meant. One
// thread.
class LaunchGraphs final : public cuda::KernelQueue {
 public:
  // Each keeps arguments and code of some hundred kernels in the memory of host
  // and device. Passes that repeat differ in their rows and in the chunks of
  // their prefixes, so few are in use at a time.
  static constexpr size_t kMaxGraphs = 32;

  // The device must outlive this object.
  explicit LaunchGraphs(cuda::ComputeDevice& device,
                        size_t most_graphs = kMaxGraphs)
      : device_(device), most_graphs_(most_graphs) {}

  // Nothing is queued before Flush.
  void Launch(const cuda::KernelArgs& args) override {
    pending_.push_back(args);
  }
  // Queues the kernels since the last Flush, in their order.
  void Flush();

 private:
  struct Pass {
    std::vector<cuda::KernelArgs> launches;
    bool came_again = false;
    std::unique_ptr<cuda::KernelGraph> graph = nullptr;
  };

  void Remember();
  void Replay(Pass& pass);
  void LaunchPending();

  cuda::ComputeDevice& device_;
  const size_t most_graphs_;
  std::vector<cuda::KernelArgs> pending_;
  // There are at most kMaxGraphs, the last used first. Two that differ do so
  // in their first kernels, so a comparison is short.
  std::list<Pass> passes_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_LAUNCH_GRAPHS_H_
