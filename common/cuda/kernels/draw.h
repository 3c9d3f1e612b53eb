#ifndef ESPALIER_COMMON_CUDA_KERNELS_DRAW_H_
#define ESPALIER_COMMON_CUDA_KERNELS_DRAW_H_

#include "common/cuda/kernels/gumbel.h"
#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

inline constexpr int kDrawThreads = 256, kDrawWarps = kDrawThreads / 32;
inline constexpr int kTokensOfThread = kDrawChunkTokens / kDrawThreads;
static_assert(kMaxTokens / kDrawChunkTokens <= kDrawThreads);

inline int DrawChunks(int vocab) {
  return (vocab + kDrawChunkTokens - 1) / kDrawChunkTokens;
}

// Returns the score from which on a token may matter. Huge scores leave float32
// few digits.
DEVICE float LeastScore(const DrawRow& row, float best) {
  return best - row.margin - fabsf(best) * 0x1p-20f;
}

DEVICE TokenRank RankByWeight(const FilterResult& filter, const DrawRow& row,
                              int token, float logit) {
  return RankOf(LogWeight(logit, filter.largest, row.temperature), token);
}

// Some neighbouring tokens of a row.
struct ScoredTokens {
  int first;
  float logits[kTokensOfThread];
  float scores[kTokensOfThread];  // -infinity: cannot be drawn

  DEVICE ScoredTokens(const DrawArgs& args, const DrawRow& row, int index,
                      int first_token)
      : first(first_token) {
    const float* const from =
        args.logits.logits + index * args.logits.stride + first;
#pragma unroll
    for (int i = 0; i < kTokensOfThread; i += 4) {
      uint32_t bits[4] = {};
      if (row.temperature > 0) NoiseBits(row, first + i, bits);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int token = first + i + k;
        const bool is_there = token < args.logits.vocab;
        const float logit = is_there ? from[i + k] : -INFINITY;
        logits[i + k] = logit;
        scores[i + k] = -INFINITY;
        if (!is_there || !MayBeDrawn(args, row, index, token, logit)) continue;
        scores[i + k] = row.temperature > 0
                            ? logit + row.temperature * NoiseFromBits(bits[k])
                            : logit;
      }
    }
  }

  DEVICE static bool MayBeDrawn(const DrawArgs& args, const DrawRow& row,
                                int index, int token, float logit) {
    if (args.filters != nullptr &&
        RankByWeight(args.filters[index], row, token, logit) <
            args.filters[index].lowest) {
      return false;
    }
    return row.without_begin == row.without_end ||
           !IsAmong(args.without, row.without_begin, row.without_end, token);
  }
};

// Grid: chunks of tokens, rows.
__global__ void __launch_bounds__(kDrawThreads)
    DrawOfChunks(const __grid_constant__ DrawArgs args) {
  SHARED_MEMORY(shared);  // a number for each warp
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.y;
  const DrawRow row = args.rows[index];
  const ScoredTokens tokens(
      args, row, index,
      blockIdx.x * kDrawChunkTokens + threadIdx.x * kTokensOfThread);
  float largest = -INFINITY, best = -INFINITY;
  int bad_token = kNoToken;
  for (int i = kTokensOfThread - 1; i >= 0; --i) {
    const int token = tokens.first + i;
    if (token >= args.logits.vocab) continue;
    if (!IsFinite(tokens.logits[i])) bad_token = token;
    largest = fmaxf(largest, tokens.logits[i]);
    best = fmaxf(best, tokens.scores[i]);
  }
  float* const scratch = reinterpret_cast<float*>(shared);
  int* const int_scratch = reinterpret_cast<int*>(shared);
  largest = BlockReduce<kDrawThreads>(largest, scratch, Largest{});
  best = BlockReduce<kDrawThreads>(best, scratch, Largest{});
  bad_token = BlockReduce<kDrawThreads>(bad_token, int_scratch, Smallest{});

  const float least = LeastScore(row, best);
  const auto contends = [&](int i) {
    return tokens.scores[i] > -INFINITY && tokens.scores[i] >= least;
  };
  int own = 0;
  for (int i = 0; i < kTokensOfThread; ++i) own += contends(i) ? 1 : 0;
  const int until = BlockScan<kDrawThreads>(own, int_scratch);

  DrawChunk& chunk = args.chunks[int64_t{index} * gridDim.x + blockIdx.x];
  int at = until - own;
  for (int i = 0; i < kTokensOfThread; ++i) {
    if (!contends(i)) continue;
    if (at < kMaxContenders) {
      chunk.scores[at] = tokens.scores[i];
      chunk.of_chunk.contender[at] = {tokens.first + i, tokens.logits[i]};
    }
    ++at;
  }
  if (threadIdx.x == kDrawThreads - 1) {
    chunk.best = best;
    chunk.of_chunk.largest = largest;
    chunk.of_chunk.bad_token = bad_token;
    chunk.of_chunk.contenders = until;
  }
}

// Grid: rows. A thread for each chunk.
__global__ void __launch_bounds__(kDrawThreads)
    DrawOfRows(const __grid_constant__ DrawArgs args) {
  SHARED_MEMORY(shared);  // a number for each warp
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x;
  const int chunks =
      (args.logits.vocab + kDrawChunkTokens - 1) / kDrawChunkTokens;
  const bool is_there = static_cast<int>(threadIdx.x) < chunks;
  const DrawChunk* const chunk =
      args.chunks + int64_t{index} * chunks + (is_there ? threadIdx.x : 0);
  float* const scratch = reinterpret_cast<float*>(shared);
  int* const int_scratch = reinterpret_cast<int*>(shared);
  const float largest =
      BlockReduce<kDrawThreads>(chunk->of_chunk.largest, scratch, Largest{});
  const float best = BlockReduce<kDrawThreads>(chunk->best, scratch, Largest{});
  const int bad_token = BlockReduce<kDrawThreads>(chunk->of_chunk.bad_token,
                                                  int_scratch, Smallest{});

  const DrawRow row = args.rows[index];
  const float least = LeastScore(row, best);
  const int found =
      is_there && chunk->best >= least ? chunk->of_chunk.contenders : 0;
  int own = 0;
  for (int i = 0; i < found && i < kMaxContenders; ++i) {
    if (chunk->scores[i] >= least) ++own;
  }
  // Contenders that are not listed may be as near.
  if (found > kMaxContenders) own = kMaxContenders + 1;
  const int until = BlockScan<kDrawThreads>(own, int_scratch);

  DrawResult& result = args.results[index];
  int at = until - own, is_doubtful = 0;
  for (int i = 0; i < found && i < kMaxContenders; ++i) {
    if (chunk->scores[i] < least) continue;
    const LogitOfToken contender = chunk->of_chunk.contender[i];
    if (at < kMaxContenders) result.contender[at] = contender;
    if (args.filters != nullptr &&
        RankByWeight(args.filters[index], row, contender.token,
                     contender.logit) < args.filters[index].sure) {
      is_doubtful = 1;
    }
    ++at;
  }
  is_doubtful = BlockReduce<kDrawThreads>(is_doubtful, int_scratch, Largest{});
  if (threadIdx.x == kDrawThreads - 1) {
    result.largest = largest;
    result.bad_token = BadToken(bad_token);
    result.contenders = until;
    result.is_doubtful = is_doubtful;
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_DRAW_H_
