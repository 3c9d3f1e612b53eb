#ifndef ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RANK_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

inline constexpr int kMostCandidates = kRowThreads;
static_assert(kMostRanked <= kMostCandidates);

struct RankMemory {
  SelectMemory select;
  TokenRank ranks[kMostCandidates];
  LogitOfToken tokens[kMostCandidates];
  unsigned found;  // may be more than are listed
};

// Lists the tokens that `is_listed` takes, in any order: the ranks tell.
template <typename IsListed>
DEVICE void ListTokens(const float* scores, const float* logits, int vocab,
                       RankMemory* shared, IsListed is_listed) {
  __syncthreads();
  if (threadIdx.x == 0) shared->found = 0;
  __syncthreads();
  ForTokens(scores, vocab, [&](int token, float score) {
    if (!is_listed(token, score)) return;
    const unsigned at = atomicAdd(&shared->found, 1u);
    if (at >= kMostCandidates) return;
    shared->ranks[at] = RankOf(score, token);
    shared->tokens[at] = {token, logits[token]};
  });
  __syncthreads();
}

// A thread for each token of the list.
DEVICE void WriteTop(const RankArgs& args, int row, const RankMemory& shared) {
  const unsigned found =
      shared.found < kMostCandidates ? shared.found : kMostCandidates;
  if (threadIdx.x >= found) return;
  int ahead = 0;
  for (unsigned k = 0; k < found; ++k) {
    ahead += shared.ranks[k] > shared.ranks[threadIdx.x] ? 1 : 0;
  }
  if (ahead < args.top_k) {
    args.top[int64_t{row} * args.top_k + ahead] = shared.tokens[threadIdx.x];
  }
}

// Grid: rows. Shared memory: RankMemory.
__global__ void __launch_bounds__(kRowThreads)
    Rank(const __grid_constant__ RankArgs args) {
  SHARED_MEMORY(memory);
  RankMemory* const shared = reinterpret_cast<RankMemory*>(memory);
  float* const scratch = reinterpret_cast<float*>(shared->select.scratch);
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x, vocab = args.logits.vocab;
  const float* const logits = args.logits.logits + index * args.logits.stride;
  const auto all = [](int) { return true; };
  RowPeak peak = FindPeak(logits, vocab, scratch, all);
  mass_t mass = 0;
  ForTokens(logits, vocab, [&](int, float logit) {
    mass += Mass(logit - peak.largest);
  });
  mass = BlockReduce<kRowThreads>(mass, shared->select.scratch, Sum{});
  if (threadIdx.x == 0) {
    args.results[index] = {peak.largest, BadToken(peak.bad_token), mass};
  }
  if (args.top_k == 0) return;

  LogitBlock ranked = args.logits;
  if (args.scores != nullptr) {
    ranked.logits = args.scores;
    peak = FindPeak(args.scores + index * args.logits.stride, vocab, scratch,
                    all);
  }
  const float* const scores = ranked.logits + index * ranked.stride;
  const RankSelector selector(
      ranked, index, peak.largest, [](float score) { return score; },
      &shared->select);
  const uint32_t least = selector.DigitOfThreads(args.top_k, peak.own_largest);
  ListTokens(scores, logits, vocab, shared, [&](int, float score) {
    return selector.CoarseDigit(score) >= least;
  });
  if (shared->found > kMostCandidates) {
    const TokenRank lowest =
        selector.Select(args.top_k, [](float) { return mass_t{1}; });
    ListTokens(scores, logits, vocab, shared, [&](int token, float score) {
      return RankOf(score, token) >= lowest;
    });
  }
  WriteTop(args, index, *shared);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
