#ifndef ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RANK_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

inline constexpr int kMaxCandidates = kRowThreads;
static_assert(kMaxRanked <= kMaxCandidates);

struct RankMemory {
  SelectMemory select;
  TokenRank ranks[kMaxCandidates];
  LogitOfToken tokens[kMaxCandidates];
  unsigned found;  // may be more than are listed
};

// The tokens of a row that this block looks at.
struct RankedTokens {
  int row, part, parts;
  int first, count;
  const float* logits;
  const float* scores;

  DEVICE explicit RankedTokens(const RankArgs& args)
      : row(blockIdx.y), part(blockIdx.x), parts(RankParts(args.logits.vocab)) {
    const int vocab = args.logits.vocab, fours = (vocab + 3) / 4;
    first = 4 * (fours * part / parts);
    const int end = 4 * (fours * (part + 1) / parts);
    count = (end < vocab ? end : vocab) - first;
    const int64_t at = row * args.logits.stride + first;
    logits = args.logits.logits + at;
    scores = args.scores == nullptr ? logits : args.scores + at;
  }
};

// Lists the tokens that `is_listed` takes, in any order: the ranks tell.
template <typename IsListed>
DEVICE void ListTokens(const RankedTokens& tokens, RankMemory* shared,
                       IsListed is_listed) {
  __syncthreads();
  if (threadIdx.x == 0) shared->found = 0;
  __syncthreads();
  ForTokens(tokens.scores, tokens.count, [&](int i, float score) {
    if (!is_listed(i, score)) return;
    const unsigned at = atomicAdd(&shared->found, 1u);
    if (at >= kMaxCandidates) return;
    shared->ranks[at] = RankOf(score, tokens.first + i);
    shared->tokens[at] = {tokens.first + i, tokens.logits[i]};
  });
  __syncthreads();
}

// A thread for each token of the list.
DEVICE void WriteBest(const RankMemory& shared, int top_k, RankPart& part) {
  const unsigned found =
      shared.found < kMaxCandidates ? shared.found : kMaxCandidates;
  const unsigned i = threadIdx.x;
  if (i >= found && i < static_cast<unsigned>(top_k)) part.ranks[i] = 0;
  if (i >= found) return;
  int ahead = 0;
  for (unsigned k = 0; k < found; ++k) {
    ahead += shared.ranks[k] > shared.ranks[i] ? 1 : 0;
  }
  if (ahead >= top_k) return;
  part.ranks[ahead] = shared.ranks[i];
  part.tokens[ahead] = shared.tokens[i];
}

// Grid: parts, rows. Shared memory: RankMemory.
__global__ void __launch_bounds__(kRowThreads, 1)
    RankOfParts(const __grid_constant__ RankArgs args) {
  SHARED_MEMORY(memory);
  RankMemory* const shared = reinterpret_cast<RankMemory*>(memory);
  float* const scratch = reinterpret_cast<float*>(shared->select.scratch);
  DependentsMayLaunch();
  WaitForPrevious();
  const RankedTokens tokens(args);
  RankPart& part = args.parts[tokens.row * tokens.parts + tokens.part];
  const auto all = [](int) { return true; };
  RowPeak peak = FindPeak(tokens.logits, tokens.count, scratch, all);
  if (threadIdx.x == 0) {
    part.largest = peak.largest;
    part.bad_token =
        peak.bad_token == kNoToken ? kNoToken : tokens.first + peak.bad_token;
    if (tokens.part == 0) args.results[tokens.row].mass = 0;
  }
  if (args.top_k == 0) return;
  if (args.scores != nullptr) {
    peak = FindPeak(tokens.scores, tokens.count, scratch, all);
  }
  const RankSelector selector(
      tokens.scores, tokens.count, peak.largest,
      [](float score) { return score; }, &shared->select);
  const uint32_t least = selector.DigitOfThreads(args.top_k, peak.own_largest);
  ListTokens(tokens, shared, [&](int, float score) {
    return selector.CoarseDigit(score) >= least;
  });
  if (shared->found > kMaxCandidates) {
    const TokenRank lowest =
        selector.Select(args.top_k, [](float) { return mass_t{1}; });
    ListTokens(tokens, shared,
               [&](int i, float score) { return RankOf(score, i) >= lowest; });
  }
  WriteBest(*shared, args.top_k, part);
}

// How many of a part's tokens are ahead of `rank`.
DEVICE int CountAhead(const TokenRank* ranks, int top_k, TokenRank rank) {
  int begin = 0, end = top_k;
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (ranks[middle] > rank) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Writes the places of a part's tokens among those of all parts. Called by a
// block. `ranks`: [parts * top_k] in shared memory.
DEVICE void WriteTop(const RankArgs& args, const RankedTokens& tokens,
                     TokenRank* ranks) {
  const RankPart* const parts = args.parts + tokens.row * tokens.parts;
  const int top_k = args.top_k;
  for (int i = threadIdx.x; i < tokens.parts * top_k; i += kRowThreads) {
    ranks[i] = parts[i / top_k].ranks[i % top_k];
  }
  __syncthreads();
  const int i = threadIdx.x;
  if (i >= top_k) return;
  const TokenRank rank = ranks[tokens.part * top_k + i];
  if (rank == 0) return;
  int ahead = 0;
  for (int part = 0; part < tokens.parts; ++part) {
    ahead += CountAhead(ranks + part * top_k, top_k, rank);
  }
  if (ahead >= top_k) return;
  args.top[int64_t{tokens.row} * top_k + ahead] = parts[tokens.part].tokens[i];
}

struct MergeMemory {
  mass_t scratch[kRowWarps];
  TokenRank ranks[kMaxRankParts * kMaxRanked];
};

// Grid: parts, rows. Shared memory: MergeMemory.
__global__ void __launch_bounds__(kRowThreads, 1)
    RankOfRows(const __grid_constant__ RankArgs args) {
  SHARED_MEMORY(memory);
  MergeMemory* const shared = reinterpret_cast<MergeMemory*>(memory);
  DependentsMayLaunch();
  WaitForPrevious();
  const RankedTokens tokens(args);
  const RankPart* const parts = args.parts + tokens.row * tokens.parts;
  float largest = parts[0].largest;
  int bad_token = parts[0].bad_token;
  for (int part = 1; part < tokens.parts; ++part) {
    if (parts[part].largest > largest) largest = parts[part].largest;
    if (parts[part].bad_token < bad_token) bad_token = parts[part].bad_token;
  }
  mass_t mass = 0;
  ForTokens(tokens.logits, tokens.count,
            [&](int, float logit) { mass += Mass(logit - largest); });
  mass = BlockReduce<kRowThreads>(mass, shared->scratch, Sum{});
  RankResult& result = args.results[tokens.row];
  if (threadIdx.x == 0) {
    mass_t* const all = reinterpret_cast<mass_t*>(&result.mass);
    atomicAdd(all, mass);
    if (tokens.part == 0) {
      result.largest = largest;
      result.bad_token = BadToken(bad_token);
    }
  }
  WriteTop(args, tokens, shared->ranks);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RANK_H_
