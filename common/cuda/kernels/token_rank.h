// Kernels that read whole rows of logits share this.
#ifndef ESPALIER_COMMON_CUDA_KERNELS_TOKEN_RANK_H_
#define ESPALIER_COMMON_CUDA_KERNELS_TOKEN_RANK_H_

#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/block_reduce.h"

namespace espalier::cuda {
namespace {

DEVICE bool IsFinite(float x) { return (BitsOf(x) & 0x7f800000) != 0x7f800000; }

DEVICE TokenRank RankOf(float score, int token) {
  // -0 is 0.
  const uint32_t bits = score == 0 ? 0 : BitsOf(score);
  const uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  return uint64_t{ascending} * kMaxTokens +
         static_cast<uint32_t>(kMaxTokens - 1 - token);
}

// Returns whether an ascending list has a token.
DEVICE bool IsAmong(const int32_t* tokens, int begin, int end, int token) {
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (tokens[middle] == token) return true;
    if (tokens[middle] < token) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return false;
}

inline constexpr int kNoToken = 0x7fffffff;
DEVICE int BadToken(int smallest) {
  return smallest == kNoToken ? -1 : smallest;
}

// Type of CUDA's atomic sums.
using mass_t = unsigned long long;

// Computes the same bits as the host's LogWeight.
DEVICE float LogWeight(float logit, float largest, float temperature) {
  return (logit - largest) / temperature;
}
// e^log_weight in kMassUnit.
DEVICE mass_t Mass(float log_weight) {
  const float weight = expf(log_weight);
  return weight > 0 ? static_cast<mass_t>(weight * 0x1p45f) : 0;
}

// --- a block of kRowThreads threads for a row

inline constexpr int kRowThreads = 1024, kRowWarps = kRowThreads / 32;

// act(token, logit) for all tokens of a row. A thread has several loads of four
// tokens under way at once: one block reads all of a row.
template <typename Act>
DEVICE void ForTokens(const float* logits, int vocab, Act act) {
  constexpr int kAtOnce = 4, kStep = 4 * kRowThreads;
  for (int first = 4 * threadIdx.x; first < vocab; first += kAtOnce * kStep) {
    Vector<float, 4> fours[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int token = first + k * kStep;
      if (token < vocab) fours[k] = LoadVector<4>(logits + token);
    }
#pragma unroll
    for (int i = 0; i < 4 * kAtOnce; ++i) {
      const int token = first + i / 4 * kStep + i % 4;
      if (token < vocab) act(token, fours[i / 4].of[i % 4]);
    }
  }
}

struct RowPeak {
  float largest;
  int bad_token;      // smallest; kNoToken: none
  float own_largest;  // of this thread's tokens
};
// Finds the largest logit among the tokens that `counts` takes, and the first
// bad token among all.
template <typename Counts>
DEVICE RowPeak FindPeak(const float* logits, int vocab, float* scratch,
                        Counts counts) {
  float largest = -INFINITY;
  int bad_token = kNoToken;
  ForTokens(logits, vocab, [&](int token, float logit) {
    if (!IsFinite(logit) && token < bad_token) bad_token = token;
    if (counts(token) && logit > largest) largest = logit;
  });
  return {BlockReduce<kRowThreads>(largest, scratch, Largest{}),
          BlockReduce<kRowThreads>(bad_token, reinterpret_cast<int*>(scratch),
                                   Smallest{}),
          largest};
}

struct SelectMemory {
  mass_t histogram[kRowThreads];
  mass_t scratch[kRowWarps];
  mass_t rest;
  uint32_t digit;
};

// Finds ranks by what is ranked ahead of them, digit by digit. Tokens are
// ranked by the score of their logit, which does not fall when the logit rises.
template <typename ScoreOf>
class RankSelector {
 public:
  // largest: score of the row
  DEVICE RankSelector(const float* logits, int vocab, float largest,
                      ScoreOf score, SelectMemory* shared)
      : logits_(logits),
        vocab_(vocab),
        largest_(largest),
        score_(score),
        shared_(shared) {}

  // Returns the highest rank such that the tokens from it upwards weigh at
  // least `target`, by their scores. REQUIRES: all together do.
  template <typename WeightOf>
  DEVICE TokenRank Select(mass_t target, WeightOf weight) const {
    // First by how far a score is from the largest, which spreads tokens over
    // the digits, so that sums rarely meet in one.
    uint32_t coarse = kRowThreads;
    TokenRank found = 0;
    for (int shift = kFirstShift + kDigitBits; shift >= 0;
         shift -= kDigitBits) {
      const bool is_coarse = shift > kFirstShift;
      ClearHistogram();
      ForTokens(logits_, vocab_, [&](int token, float logit) {
        const float score = score_(logit);
        uint32_t digit = CoarseDigit(score);
        if (!is_coarse) {
          const TokenRank rank = RankOf(score, token);
          if (digit != coarse || rank >> shift >> kDigitBits != found) return;
          digit = static_cast<uint32_t>(rank >> shift) % kRowThreads;
        }
        atomicAdd(&shared_->histogram[digit], weight(score));
      });
      __syncthreads();
      target = FindDigit(target);
      if (is_coarse) {
        coarse = shared_->digit;
      } else {
        found = found << kDigitBits | shared_->digit;
      }
      __syncthreads();
    }
    return found;
  }

  // Returns a coarse digit at or above which at least `count` tokens are, and
  // rarely many more: `count` threads have such a token. own_score: this
  // thread's best.
  DEVICE uint32_t DigitOfThreads(int count, float own_score) const {
    ClearHistogram();
    atomicAdd(&shared_->histogram[CoarseDigit(own_score)], mass_t{1});
    __syncthreads();
    FindDigit(count);
    return shared_->digit;
  }

  // Does not fall when the score rises.
  DEVICE uint32_t CoarseDigit(float score) const {
    const float distance = (largest_ - score) * 32;
    return distance < kRowThreads - 1
               ? kRowThreads - 1 - static_cast<uint32_t>(distance)
               : 0;
  }

 private:
  static constexpr int kDigitBits = 10, kFirstShift = 40;
  static_assert(1 << kDigitBits == kRowThreads);
  static_assert(kMaxTokens == 1 << (kFirstShift + kDigitBits - 32));

  DEVICE void ClearHistogram() const {
    shared_->histogram[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      shared_->digit = 0;
      shared_->rest = 1;
    }
    __syncthreads();
  }

  // Returns the digit at which the sum from the highest one down reaches the
  // target, and what of the target is left in it.
  DEVICE mass_t FindDigit(mass_t target) const {
    const uint32_t digit = kRowThreads - 1 - threadIdx.x;
    const mass_t here = shared_->histogram[digit];
    const mass_t sum = BlockScan<kRowThreads>(here, shared_->scratch);
    if (sum >= target && sum - here < target) {
      shared_->digit = digit;
      shared_->rest = target - (sum - here);
    }
    __syncthreads();
    return shared_->rest;
  }

  const float* const logits_;
  const int vocab_;
  const float largest_;
  const ScoreOf score_;
  SelectMemory* const shared_;
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_TOKEN_RANK_H_
