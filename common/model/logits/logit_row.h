// The requests that a row of logits can answer, and their answers from the
// whole row. A model that never stores the row gives the same answers.
#ifndef ESPALIER_COMMON_MODEL_LOGITS_LOGIT_ROW_H_
#define ESPALIER_COMMON_MODEL_LOGITS_LOGIT_ROW_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/types.h"

namespace espalier {

// INTERNAL: names the first logit that is NaN or infinite. All functions below
// fail in this way.
absl::Status CheckFinite(absl::Span<const float> logits);
absl::Status NotFinite(TokenId token, float logit);

// Draws from the distribution of all tokens at this temperature, with the noise
// of the coupled walk or another; greedy (the largest logit, ties to the lower
// id) at 0.
struct DrawRequest {
  float temperature = 0;
  uint64_t seed = 0;
  NoisePurpose noise = NoisePurpose::kWalk;

  friend bool operator==(const DrawRequest&, const DrawRequest&) = default;
};
struct SampledToken {
  TokenId token = 0;
  bool near_tie = false;  // rounding could have decided it, see kNearTie
  float log_weight = 0;   // relative to the row's largest, see LogWeight

  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};
// A draw above temperature 0 from the tokens that the request's filters keep,
// see SamplingParams.
struct FilteredDrawRequest {
  DrawRequest draw;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;

  friend bool operator==(const FilteredDrawRequest&,
                         const FilteredDrawRequest&) = default;
};
// Returns the greedy draw. REQUIRES: finite logits, at least one.
SampledToken LargestLogit(absl::Span<const float> logits);

// `position`: of the sampled token. `without`: ascending, tokens that cannot be
// sampled. REQUIRES: there are others, and if not empty a temperature above 0.
absl::StatusOr<SampledToken> DrawFrom(absl::Span<const float> logits,
                                      const DrawRequest& request,
                                      int64_t position,
                                      absl::Span<const TokenId> without = {});

// The largest logits, and what turns logits into log-probabilities.
struct RankRequest {
  int32_t top_k = 0;

  friend bool operator==(const RankRequest&, const RankRequest&) = default;
};
struct RankedToken {
  TokenId token = 0;
  float logit = 0;

  friend bool operator==(const RankedToken&, const RankedToken&) = default;
};
struct Ranking {
  std::vector<RankedToken> top;  // [min(top_k, vocab)] by IsAhead
  double log_sum_exp = 0;        // of all logits
};
absl::StatusOr<Ranking> RankFrom(absl::Span<const float> logits,
                                 const RankRequest& request);

// Some tokens for each of some rows.
struct RowSupports {
  std::vector<TokenId> tokens;      // row after row, ascending within one
  std::vector<int64_t> ends = {0};  // [rows + 1]

  void Add(absl::Span<const TokenId> support) {
    tokens.insert(tokens.end(), support.begin(), support.end());
    ends.push_back(static_cast<int64_t>(tokens.size()));
  }
  int64_t rows() const { return static_cast<int64_t>(ends.size()) - 1; }
  absl::Span<const TokenId> Of(int64_t row) const {
    return absl::MakeConstSpan(tokens).subspan(ends[row],
                                               ends[row + 1] - ends[row]);
  }
};

// Asks, for each row, for the distribution on the row's own support, the mass
// of all other tokens, and a sample from these. The sample has noise of its
// own, so that the walk's noise, which a drafter may know, reveals nothing
// about it. All rows of a round share this noise, because the round ends at
// only one of them.
struct GatherRequest {
  float temperature = 1;  // above 0
  uint64_t seed = 0;
  int64_t round = 0;  // a number for the noise: the round's first position
  std::shared_ptr<const RowSupports> supports;  // not null

  // Returns the draw outside, at position `round`.
  DrawRequest OutsideDraw() const {
    return {.temperature = temperature,
            .seed = seed,
            .noise = NoisePurpose::kOutside};
  }
  friend bool operator==(const GatherRequest&, const GatherRequest&) = default;
};
// Relative to the weight of the largest logit, which is 1.
struct GatheredRow {
  std::vector<float> log_weights;  // [support] see LogWeight
  double outside = 0;  // weight of all other tokens; 0: none, or it underflows
};
// `index`: of the row in the request.
absl::StatusOr<GatheredRow> GatherFrom(absl::Span<const float> logits,
                                       const GatherRequest& request,
                                       int64_t index);
// REQUIRES: the weight outside is above 0.
absl::StatusOr<SampledToken> SampleOutsideFrom(absl::Span<const float> logits,
                                               const GatherRequest& request,
                                               int64_t index);

// Returns whether `a` has the larger logit or, if both are equal, the lower id.
inline bool IsAhead(const RankedToken& a, const RankedToken& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_LOGIT_ROW_H_
