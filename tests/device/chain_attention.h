#ifndef ESPALIER_TESTS_DEVICE_CHAIN_ATTENTION_H_
#define ESPALIER_TESTS_DEVICE_CHAIN_ATTENTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/cuda/compute_device.h"
#include "common/cuda/device_array.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "tests/device/chain_timing.h"

namespace espalier::cuda {

// Holds what the attention of layers reads and writes: a sequence of random
// K/V, of each layer its own, and rows in a line after it.
class AttentionOfLayers {
 public:
  // out: activations [rows, heads * head_dim].
  static absl::StatusOr<AttentionOfLayers> Make(ComputeDevice& device,
                                                const ChainAttention& shape,
                                                int layers, int rows,
                                                unsigned char* out);

  // qkv: the parts of the product of this layer's input.
  LayerChainArgs LayerOf(int layer, const ChainArgs& chain,
                         const float* qkv) const;

 private:
  AttentionOfLayers(const ChainAttention& shape, int layers, int rows)
      : shape_(shape), layers_(layers), rows_(rows) {}
  absl::Status Allocate(ComputeDevice& device);
  absl::Status AllocateItems(ComputeDevice& device);
  void Describe(unsigned char* out);
  int whole_pages() const { return shape_.prefix / kPagePositions; }
  int pages() const { return (shape_.prefix + rows_ - 1) / kPagePositions + 1; }

  ChainAttention shape_;
  int layers_, rows_;
  LayerChainArgs args_;  // of the first layer, without its chain
  DeviceArray<unsigned char> pages_;
  DeviceArray<int32_t> table_;
  DeviceArray<PassRow> pass_rows_;
  DeviceArray<PassSequence> sequence_;
  DeviceArray<uint16_t> paths_, queries_;
  DeviceArray<PrefixItem> prefix_items_, layer_prefix_items_;
  DeviceArray<TreeItem> tree_items_, layer_tree_items_;
  DeviceArray<float> states_, angles_;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_CHAIN_ATTENTION_H_
