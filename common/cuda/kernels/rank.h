#ifndef ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RANK_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

struct RankMemory {
  SelectMemory select;
  TokenRank ranks[kMostRanked];
  LogitOfToken tokens[kMostRanked];
  unsigned found;
};

// Grid: rows. Shared memory: RankMemory.
__global__ void __launch_bounds__(kRowThreads)
    Rank(const __grid_constant__ RankArgs args) {
  SHARED_MEMORY(memory);
  RankMemory* const shared = reinterpret_cast<RankMemory*>(memory);
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x;
  const int vocab = args.logits.vocab;
  const float* const logits = args.logits.logits + index * args.logits.stride;
  const RowPeak peak =
      FindPeak(logits, vocab, reinterpret_cast<float*>(shared->select.scratch),
               [](int) { return true; });
  mass_t mass = 0;
  for (int token = threadIdx.x; token < vocab; token += kRowThreads) {
    mass += Mass(logits[token] - peak.largest);
  }
  mass = BlockReduce<kRowThreads>(mass, shared->select.scratch, Sum{});
  if (threadIdx.x == 0) {
    args.results[index] = {peak.largest, BadToken(peak.bad_token), mass};
    shared->found = 0;
  }
  if (args.top_k == 0) return;

  LogitBlock ranked = args.logits;
  float best = peak.largest;
  if (args.scores != nullptr) {
    ranked.logits = args.scores;
    best = FindPeak(args.scores + index * args.logits.stride, vocab,
                    reinterpret_cast<float*>(shared->select.scratch),
                    [](int) { return true; })
               .largest;
  }
  const float* const scores = ranked.logits + index * ranked.stride;
  const RankSelector selector(
      ranked, index, best, [](float score) { return score; }, &shared->select);
  const TokenRank lowest =
      selector.Select(args.top_k, [](float) { return mass_t{1}; });
  for (int token = threadIdx.x; token < vocab; token += kRowThreads) {
    const TokenRank rank = RankOf(scores[token], token);
    if (rank < lowest) continue;
    // In any order: the ranks tell.
    const unsigned at = atomicAdd(&shared->found, 1u);
    if (at >= kMostRanked) continue;  // a row that is not finite
    shared->ranks[at] = rank;
    shared->tokens[at] = {token, logits[token]};
  }
  __syncthreads();
  const int found = static_cast<int>(shared->found);
  const int i = threadIdx.x;
  if (i >= found || i >= args.top_k) return;
  int ahead = 0;
  for (int k = 0; k < found && k < kMostRanked; ++k) {
    ahead += shared->ranks[k] > shared->ranks[i] ? 1 : 0;
  }
  if (ahead < args.top_k) {
    args.top[int64_t{index} * args.top_k + ahead] = shared->tokens[i];
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
