#ifndef ESPALIER_COMMON_NN_PRODUCT_CHUNKS_H_
#define ESPALIER_COMMON_NN_PRODUCT_CHUNKS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"

namespace espalier::nn {

// Panels of a chunk. It follows from nothing, so that what is summed by chunks
// has the same bits for every number of rows and threads.
inline constexpr int64_t kChunkPanels = 8;
inline constexpr int64_t kChunkColumns = kChunkPanels * kPanelOutputs;

// Some columns of a product, all rows, while they are in the cache.
struct ProductChunk {
  int64_t index = 0;   // chunk i starts at column i * kChunkColumns
  int64_t thread = 0;  // of the pool, that runs this
  int64_t columns = 0;
  const float* rows = nullptr;  // [rows, columns]
  int64_t stride = 0;           // floats from row to row

  int64_t first_column() const { return index * kChunkColumns; }
  int64_t panels() const {
    return (columns + kPanelOutputs - 1) / kPanelOutputs;
  }
  // Columns of one panel, relative to the chunk's first: begin, end.
  std::pair<int64_t, int64_t> PanelRange(int64_t panel) const {
    const int64_t begin = panel * kPanelOutputs;
    return {begin, std::min(begin + kPanelOutputs, columns)};
  }
  absl::Span<const float> Row(int64_t row) const {
    return {rows + row * stride, static_cast<size_t>(columns)};
  }
};

inline int64_t ProductChunkCount(int64_t columns) {
  return (columns + kChunkColumns - 1) / kChunkColumns;
}

// A product that is too wide to be written to memory and read again, such as
// that with a vocabulary: computed in chunks, each of which is consumed where
// it was computed. Owns the threads' scratch memory; one thread calls it.
class ProductChunks {
 public:
  using Consumer = absl::FunctionRef<void(const ProductChunk&)>;

  // Borrows both.
  ProductChunks(const Kernels& kernels, ThreadPool& pool);

  // Calls `consume` once per chunk, in any order and on any thread of the pool.
  // `product`: without its panels and `out`, which are chosen here.
  // REQUIRES: product is not gated and does not accumulate.
  void Run(const LinearArgs& product, Consumer consume);
  // Runs some of the chunks, whose values have the same bits.
  void Run(const LinearArgs& product, absl::Span<const int64_t> chunks,
           Consumer consume);

 private:
  // Calls `consume` for `count` chunks, of which index(i) is the i-th.
  template <typename Index>
  void RunChunks(const LinearArgs& product, int64_t count, Index index,
                 Consumer consume);

  const Kernels& kernels_;
  ThreadPool& pool_;
  // By thread: [rows, kChunkColumns].
  std::vector<std::vector<float>> scratch_;
};

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_PRODUCT_CHUNKS_H_
