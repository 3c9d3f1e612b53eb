#include "common/nn/product_chunks.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::nn {
namespace {

constexpr int64_t kClaimsPerThread = 8;  // as few as share the work evenly

// The product of one chunk's panels, as a product of its own.
LinearArgs ChunkProduct(const LinearArgs& product, int64_t index, float* out) {
  const int64_t first_column = index * kChunkColumns;
  LinearArgs chunk = product;
  chunk.weights.data += index * kChunkPanels * product.weights.panel_bytes;
  if (chunk.bias != nullptr) chunk.bias += first_column;
  chunk.out = out;
  chunk.out_stride = kChunkColumns;
  chunk.out_columns =
      std::min(kChunkColumns, product.out_columns - first_column);
  chunk.panel_begin = 0;
  chunk.panel_end = (chunk.out_columns + kPanelOutputs - 1) / kPanelOutputs;
  return chunk;
}

}  // namespace

ProductChunks::ProductChunks(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), scratch_(pool.threads()) {}

void ProductChunks::Run(const LinearArgs& product, Consumer consume) {
  RunChunks(
      product, ProductChunkCount(product.out_columns),
      [](int64_t i) { return i; }, consume);
}

void ProductChunks::Run(const LinearArgs& product,
                        absl::Span<const int64_t> chunks, Consumer consume) {
  RunChunks(
      product, std::ssize(chunks), [chunks](int64_t i) { return chunks[i]; },
      consume);
}

template <typename Index>
void ProductChunks::RunChunks(const LinearArgs& product, int64_t count,
                              Index index, Consumer consume) {
  ESPALIER_CHECK(!product.gated && !product.accumulate);
  const int64_t claims = kClaimsPerThread * pool_.threads();
  pool_.ParallelFor(count, std::max<int64_t>(1, count / claims),
                    [&](const ThreadPool::Chunk& claim) {
                      std::vector<float>& scratch = scratch_[claim.thread];
                      scratch.resize(product.rows * kChunkColumns);
                      for (int64_t i = claim.begin; i < claim.end; ++i) {
                        const LinearArgs chunk =
                            ChunkProduct(product, index(i), scratch.data());
                        kernels_.linear(chunk);
                        consume({.index = index(i),
                                 .thread = claim.thread,
                                 .columns = chunk.out_columns,
                                 .rows = scratch.data(),
                                 .stride = kChunkColumns});
                      }
                    });
}

}  // namespace espalier::nn
