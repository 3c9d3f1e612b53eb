#ifndef ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_
#define ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

// Top-p of the tokens from `filter.lowest` upwards.
template <typename Weight>
DEVICE void KeepNucleus(const LogitBlock& block, const float* logits,
                        float top_p, Weight weight,
                        const RankSelector<Weight>& selector,
                        SelectMemory* shared, FilterResult& filter) {
  const auto mass = [](float log_weight) { return Mass(log_weight); };
  mass_t total = 0;
  ForTokens(logits, block.vocab, [&](int token, float logit) {
    const float log_weight = weight(logit);
    if (RankOf(log_weight, token) >= filter.lowest) total += mass(log_weight);
  });
  total = BlockReduce<kRowThreads>(total, shared->scratch, Sum{});
  const double all = static_cast<double>(total);
  const double least = (top_p - kDoubtfulMass) * all;
  const double most = (top_p + kDoubtfulMass) * all;
  filter.sure =
      selector.Select(least < 1 ? 1 : static_cast<mass_t>(least), mass);
  if (most < all) {
    filter.lowest = selector.Select(static_cast<mass_t>(most) + 1, mass);
  }
}

// Grid: rows. Shared memory: SelectMemory.
__global__ void __launch_bounds__(kRowThreads)
    Filter(const __grid_constant__ FilterArgs args) {
  SHARED_MEMORY(memory);
  SelectMemory* const shared = reinterpret_cast<SelectMemory*>(memory);
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x;
  const FilterRow row = args.rows[index];
  const int vocab = args.logits.vocab;
  const float* const logits = args.logits.logits + index * args.logits.stride;
  FilterResult filter;
  filter.largest =
      FindPeak(logits, vocab, reinterpret_cast<float*>(shared->scratch),
               [](int) { return true; })
          .largest;
  const auto weight = [largest = filter.largest,
                       temperature = row.temperature](float logit) {
    return LogWeight(logit, largest, temperature);
  };
  const RankSelector selector(logits, vocab, /*largest=*/0, weight, shared);
  if (row.top_k > 0 && row.top_k < vocab) {
    filter.lowest = selector.Select(row.top_k, [](float) { return mass_t{1}; });
  }
  const TokenRank least = RankOf(row.least_weight, kMaxTokens - 1);
  if (filter.lowest < least) filter.lowest = least;
  filter.sure = filter.lowest;
  if (row.top_p < 1) {
    KeepNucleus(args.logits, logits, row.top_p, weight, selector, shared,
                filter);
  }
  if (threadIdx.x == 0) args.results[index] = filter;
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_
