// These plain structs say what each kernel that reads logits is told: those of
// filters, draws, ranks and masses. kernel_args.h includes them.
#ifndef ESPALIER_COMMON_CUDA_LOGIT_ARGS_H_
#define ESPALIER_COMMON_CUDA_LOGIT_ARGS_H_

#include <cmath>
#include <cstdint>

#include "common/cuda/layout.h"

namespace espalier::cuda {

// Logits of some rows.
struct LogitBlock {
  const float* logits = nullptr;  // [rows, stride]
  int rows = 0;
  int vocab = 0;       // at most kMaxTokens
  int64_t stride = 0;  // a multiple of 4; what pads a row may be anything
  bool operator==(const LogitBlock&) const = default;
};
inline constexpr int kMaxTokens = 1 << 18;

// Tokens by a score, such as their logit, then the lower id first: larger is
// ahead. 0 is below all of them.
using TokenRank = uint64_t;

struct LogitOfToken {
  int32_t token = 0;
  float logit = 0;
};

// Min-p, then top-k, then top-p of what is left. Tokens are ranked by their
// log-weight, (logit - largest) / temperature in float32.
struct FilterRow {
  float temperature = 1;           // above 0
  int32_t top_k = 0;               // 0: all
  float top_p = 1;                 // 1: all
  float least_weight = -INFINITY;  // log-weight that min-p asks for
};
// Masses are sums of float32 exponentials. Where their rounding may decide
// about the last tokens of top-p, these are kept, and known as doubtful.
struct FilterResult {
  TokenRank lowest = 0;  // that stays
  TokenRank sure = 0;    // from it upwards nothing is doubtful
  float largest = 0;     // logit of the row
};
// More than the error of a sum of masses, and of the part of it that top-p asks
// for, relative to the sum: 2^-22 each for exponentials with two units in the
// last place, and kMassUnit for each token.
inline constexpr double kDoubtfulMass = 1e-6;
struct FilterArgs {
  LogitBlock logits;
  const FilterRow* rows = nullptr;
  FilterResult* results = nullptr;  // [rows]
  bool operator==(const FilterArgs&) const = default;
};

// The tokens whose logit + temperature * noise is so near the best that they
// could be drawn, or be near ties.
struct DrawRow {
  float temperature = 0;  // 0: no noise
  float margin = 0;       // how near, in units of logits
  uint64_t seed = 0;
  uint64_t position = 0;
  uint32_t purpose = 0;                        // of the noise
  int32_t without_begin = 0, without_end = 0;  // tokens that cannot be drawn
};
inline constexpr int kMaxContenders = 16;
struct DrawResult {
  float largest = 0;       // logit, of all tokens
  int32_t bad_token = 0;   // the first whose logit is not finite; -1: none
  int32_t contenders = 0;  // more than kMaxContenders: look at the logits
  // 1: rounding decides whether a filter keeps a contender: look at the logits.
  int32_t is_doubtful = 0;
  LogitOfToken contender[kMaxContenders];  // ascending tokens
};
inline constexpr int kDrawChunkTokens = 2048;
struct DrawChunk {  // scratch
  float best = 0;   // score
  float scores[kMaxContenders];
  DrawResult of_chunk;
};
struct DrawArgs {
  LogitBlock logits;
  const DrawRow* rows = nullptr;
  const int32_t* without = nullptr;  // ascending in each row's range
  // [rows] what may be drawn, or null. Temperatures are above 0 then.
  const FilterResult* filters = nullptr;
  DrawChunk* chunks = nullptr;    // [rows, ceil(vocab / kDrawChunkTokens)]
  DrawResult* results = nullptr;  // [rows]
  bool operator==(const DrawArgs&) const = default;
};

// Sums of e^(logit / temperature) are whole numbers of this part of the largest
// term: their bits do not depend on their order.
inline constexpr double kMassUnit = 0x1p-45;

// score = logit + temperature * noise, as the coupled walk compares tokens.
struct PerturbArgs {
  LogitBlock logits;
  const DrawRow* rows = nullptr;
  // [vocab] whose noise a column takes; null: that of its own number.
  const int32_t* tokens = nullptr;
  float* scores = nullptr;  // [rows, stride]
  bool operator==(const PerturbArgs&) const = default;
};

// The top_k tokens of largest logits, and the sum of all.
inline constexpr int kMaxRanked = 256;
struct RankResult {
  float largest = 0;
  int32_t bad_token = 0;  // as of DrawResult
  uint64_t mass = 0;      // of e^(logit - largest), in kMassUnit
};
// A row is ranked in parts, a block of threads each.
inline constexpr int kMaxRankParts = 8;
ESPALIER_HOST_DEVICE constexpr int RankParts(int vocab) {
  constexpr int kMinTokens = 1024;
  const int parts = (vocab + kMinTokens - 1) / kMinTokens;
  return parts < kMaxRankParts ? parts : kMaxRankParts;
}
struct RankPart {  // scratch
  float largest = 0;
  int32_t bad_token = 0;        // the first; kMaxTokens or more: none
  TokenRank ranks[kMaxRanked];  // [top_k] best first; 0: no token
  LogitOfToken tokens[kMaxRanked];
};
struct RankArgs {
  LogitBlock logits;
  // [rows, stride] by which tokens are ranked in place of logits, or null.
  const float* scores = nullptr;
  int top_k = 0;                  // at most kMaxRanked and vocab
  RankPart* parts = nullptr;      // [rows, RankParts(vocab)]
  RankResult* results = nullptr;  // [rows]
  LogitOfToken* top = nullptr;    // [rows, top_k], best first
  bool operator==(const RankArgs&) const = default;
};

// Logits of some tokens, and the mass of all others.
struct GatherRow {
  float temperature = 1;                       // above 0
  int32_t support_begin = 0, support_end = 0;  // ascending tokens
};
struct GatherResult {
  float largest = 0;          // of all
  float largest_outside = 0;  // -infinity: there is none
  int32_t bad_token = 0;      // as of DrawResult
  uint64_t mass_outside = 0;  // of e^((logit - largest_outside) / temperature)
};
struct GatherArgs {
  LogitBlock logits;
  const GatherRow* rows = nullptr;
  const int32_t* support = nullptr;
  GatherResult* results = nullptr;  // [rows]
  float* support_logits = nullptr;  // as `support`
  bool operator==(const GatherArgs&) const = default;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_LOGIT_ARGS_H_
