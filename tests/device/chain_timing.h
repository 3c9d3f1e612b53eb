#ifndef ESPALIER_TESTS_DEVICE_CHAIN_TIMING_H_
#define ESPALIER_TESTS_DEVICE_CHAIN_TIMING_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cuda/compute_device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {

// The products of a layer, in numbers.
struct ChainLayer {
  int attended = 0, hidden = 0, ffn = 0, qkv = 0;
};
inline constexpr ChainLayer kQwen3ChainLayer = {4096, 4096, 12288, 6144};

// The attention of a layer: rows in a line after a prefix.
struct ChainAttention {
  int kv_heads = 0, group = 0, head_dim = 0, prefix = 0;
};
inline constexpr ChainAttention kQwen3ChainAttention = {8, 4, 128, 1000};

struct ChainTimes {
  double chain_us = 0, launches_us = 0;  // of a layer, the median of several
  double attending_us = 0;               // of a chain with attention inside
  bool same_bits = false;                // of the residual stream and of qkv
};

// Times layers as chains beside the same kernels launched one by one, the ways
// in turns; without attention, or with it before chains and inside them. So
// many layers have weights of their own, which should be more than a cache
// holds. FAILED_PRECONDITION: the device does not run such a chain.
// RESOURCE_EXHAUSTED, UNAVAILABLE: as of the device.
absl::StatusOr<ChainTimes> TimeChains(
    ComputeDevice& device, const ChainLayer& shape, int layers, int rows,
    int turns, const ChainAttention* attention = nullptr);

// Forms of the kernel of a layer, on a queue beside the device's.
struct LayerForms {
  std::vector<std::function<void(const LayerChainArgs&)>> launches;
  std::function<void()> wait;  // until all that was launched is done
};
struct FormTimes {
  std::vector<double> us;  // of a layer, the median of several, by form
  bool same_bits = false;  // of the residual stream and of qkv
};

// As TimeChains, with attention inside.
absl::StatusOr<FormTimes> TimeForms(ComputeDevice& device,
                                    const ChainLayer& shape, int layers,
                                    int rows, int turns,
                                    const ChainAttention& attention,
                                    const LayerForms& forms);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_CHAIN_TIMING_H_
