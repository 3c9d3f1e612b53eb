#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_DECODER_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_DECODER_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/cuda/device_array.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_logits.h"
#include "common/model/cuda/cuda_mixture.h"
#include "common/model/cuda/cuda_pass.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/cuda/mailbox.h"
#include "common/model/files/model_config.h"
#include "common/model/kv_layers.h"

namespace espalier {

// Queues the kernels of a pass. Owns what lies between them. One thread.
class CudaDecoder {
 public:
  // `queue`: where kernels go, the device or what is before it. The references
  // must outlive this object.
  CudaDecoder(const ModelConfig& config, const CudaWeights& weights,
              CudaAngles angles, cuda::ComputeDevice& device,
              cuda::KernelQueue& queue)
      : config_(config),
        kv_layers_(KvLayers::Of(config, cuda::kPagePositions)),
        weights_(weights),
        angles_(std::move(angles)),
        device_(device),
        queue_(queue),
        resident_blocks_(device.info().resident_blocks),
        chains_attend_(device.info().chains_attend),
        mixture_(config, device, queue),
        logits_(weights.head_or_tokens(), device, queue) {}

  struct Target {
    unsigned char* pages = nullptr;  // of the K/V pool
    float* logits = nullptr;         // [padded logit rows, padded vocab]
    // [taps, rows, hidden] hidden states at ascending points, see
    // FeatureContract.
    std::vector<int32_t> taps = {};
    cuda::bf16_t* states = nullptr;
  };
  // Allocates what lies between the kernels of passes of so many rows. Larger
  // passes allocate more, once. RESOURCE_EXHAUSTED: no room on the device.
  absl::Status Reserve(int rows, int logit_rows);

  // Puts what the kernels are told of the pass into the mailbox, then queues
  // the kernels: the mailbox is sent between the two. RESOURCE_EXHAUSTED: no
  // room on the device.
  absl::Status Describe(const CudaPass& pass, Mailbox& requests);
  void Launch(const CudaPass& pass, const Target& target);

  // Parts of a pass, for networks that enter or leave the layers in their own
  // way: all are called after Describe. Embedding and all layers.
  void LaunchLayers(const CudaPass& pass, const Target& target);
  // A layer on what its attention reads, activations [rows, inputs of qkv], and
  // on the residual stream in stream().
  void LaunchLayer(int64_t index, const unsigned char* input,
                   const CudaPass& pass, const Target& target);
  // Only puts keys and values of `input`, activations [rows, hidden], into the
  // pages of all layers. parts: [PartsSize(kv.product, rows)]. REQUIRES: no
  // layer has a window.
  void CacheRows(const CudaKvProduct& kv, const unsigned char* input,
                 float* parts, const CudaPass& pass, const Target& target);
  float* stream() const { return scratch_.x.data(); }  // [rows, hidden]
  // Returns the residual stream after a layer: what is left to add and to
  // place. Queues what has to be normed before.
  cuda::TakeRowsArgs StreamAfter(int64_t index, const CudaPass& pass);
  const int32_t* tokens() const { return on_device_.tokens; }  // of the pass

  // Returns the distance between two rows of the logits.
  int64_t logit_stride() const { return logits_.stride(); }

 private:
  // Holds what the host says of a pass, on the device.
  struct Description {
    const int32_t* tokens = nullptr;
    const int32_t* page_tables = nullptr;  // [groups, page_table_size]
    int64_t page_table_size = 0;
    const int32_t* logit_rows = nullptr;
    const cuda::PassRow* rows = nullptr;
    const cuda::PassRow* rotated_rows = nullptr;
    const cuda::PassSequence* sequences = nullptr;
    const uint16_t* paths = nullptr;
    std::map<int64_t, const cuda::PrefixItem*> prefix_items = {};  // by window
    const cuda::TreeItem* tree_items = nullptr;
    const cuda::ChainItem* chain_items = nullptr;
    // Chains that attend read these.
    const cuda::PrefixItem* layer_prefix_items = nullptr;
    const cuda::TreeItem* layer_tree_items = nullptr;
    int num_layer_prefix_items = 0;
    int num_layer_tree_items = 0;
  };
  struct Scratch {
    cuda::DeviceArray<float> x, parts, states;
    cuda::DeviceArray<unsigned char> normed, attended, gated, logit_rows;
    cuda::DeviceArray<cuda::bf16_t> queries;
    cuda::DeviceArray<uint32_t> chain_counters;
  };

  void Embed(const CudaPass& pass, const Target& target);
  // Queues a layer from its attention on. `has_next`: and the product of the
  // next layer's input.
  void RunLayer(int64_t index, const CudaPass& pass, const Target& target,
                bool has_next);
  cuda::ResidualNormArgs InputNorm(int64_t index, const CudaPass& pass,
                                   const Target& target) const;
  cuda::ProductArgs InputProduct(int64_t index, const unsigned char* input,
                                 int rows) const;
  cuda::KvPages PagesOf(int64_t layer, const Target& target) const;
  cuda::PrepareArgs Preparation(int64_t index, int rows,
                                const cuda::KvPages& kv) const;
  cuda::AttendArgs Attention(int64_t index, const CudaPass& pass,
                             const cuda::KvPages& kv) const;
  // Returns what follows a layer's attention.
  cuda::ChainArgs FeedForward(int64_t index, const CudaPass& pass,
                              const Target& target, bool has_next) const;
  // Queues it.
  void FeedExperts(int64_t index, const CudaPass& pass);
  cuda::ResidualNormArgs AttentionOutNorm(int64_t index,
                                          const CudaPass& pass) const;
  absl::Status ReserveCounters();
  absl::Status DescribeLayerChains(const CudaPass& pass, Mailbox& requests);
  // Each queues a chain, as such or kernel by kernel.
  void LaunchLayerChain(cuda::LayerChainArgs layer);
  void LaunchChain(cuda::ChainArgs chain);
  // Adds to `norm` the output of a layer.
  void AddOutput(int64_t index, int rows, cuda::ResidualNormArgs& norm) const;
  void Head(const CudaPass& pass, const Target& target);
  cuda::Parts PartsOf(const CudaLinear& linear, int rows) const;
  cuda::ResidualNormArgs Norm(const CudaPass& pass,
                              const cuda::DeviceArray<float>& weight) const;
  cuda::bf16_t* TapAt(int32_t point, const CudaPass& pass,
                      const Target& target) const;

  const ModelConfig& config_;
  const KvLayers kv_layers_;
  const CudaWeights& weights_;
  const CudaAngles angles_;
  cuda::ComputeDevice& device_;
  cuda::KernelQueue& queue_;
  const int resident_blocks_;
  const bool chains_attend_;
  CudaMixture mixture_;
  CudaLogits logits_;
  Description on_device_;
  Scratch scratch_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_DECODER_H_
