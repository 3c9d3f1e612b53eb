#ifndef ESPALIER_COMMON_CUDA_KERNELS_LAYER_HEADS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LAYER_HEADS_H_

#include "common/cuda/counters.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// How the attention of a layer is divided among the blocks of a chain: all
// blocks of a K/V head do its work, so one head does not wait for another. With
// fewer blocks than heads, a block has several. Attention takes the registers,
// so all numbers but one are computed anew for each work (BlockAnew).
struct LayerHeads {
  int kv_heads;

  // act(head, i): each of so many works of a head that is this block's, for
  // each of its heads.
  template <typename Act>
  DEVICE void ForItemsOfBlock(int count, Act act) const {
    for (int n = 0;; ++n) {
      const int block = BlockAnew(), apart = Apart(), place = block / apart;
      const int stride = BlocksOf(block);
      const int of_head = (count - place + stride - 1) / stride;
      if (place >= count) return;
      const int head = block % apart + n / of_head * apart;
      if (head >= kv_heads) return;
      act(head, place + n % of_head * stride);
    }
  }
  // act(head): each head of this block.
  template <typename Act>
  DEVICE void ForEachOfBlock(Act act) const {
    for (int head = BlockAnew() % Apart(); head < kv_heads; head += Apart()) {
      act(head);
    }
  }
  DEVICE int BlocksOf(int head) const {
    const int apart = Apart();
    return (static_cast<int>(gridDim.x) - head % apart + apart - 1) / apart;
  }
  // Returns the number of this block among those of each of its heads.
  DEVICE int PlaceOfBlock() const { return BlockAnew() / Apart(); }

 private:
  DEVICE int Apart() const {
    const int blocks = static_cast<int>(gridDim.x);
    return blocks < kv_heads ? blocks : kv_heads;
  }
};

// The counters of a layer after those of its chain.
struct LayerCounters {
  uint32_t* first;

  DEVICE explicit LayerCounters(const ChainArgs& chain)
      : first(chain.counters + kChainCounters) {}
  // The blocks that have prepared their rows of a head, and attended to their
  // prefixes of it.
  DEVICE uint32_t* Prepared(int head) const { return first + head; }
  DEVICE uint32_t* PrefixesDone(int head) const {
    return first + kMaxLayerHeads + head;
  }
  DEVICE uint32_t* Attended() const { return first + 2 * kMaxLayerHeads; }
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LAYER_HEADS_H_
