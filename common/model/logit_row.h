// What may be asked of a row of logits, and its answer from the whole row. A
// model that never writes the row down gives the same answers.
#ifndef ESPALIER_COMMON_MODEL_LOGIT_ROW_H_
#define ESPALIER_COMMON_MODEL_LOGIT_ROW_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/spec/types.h"

namespace espalier {

// INTERNAL: names the first logit that is NaN or infinite. All below fail so.
absl::Status CheckFinite(absl::Span<const float> logits);
absl::Status NotFinite(TokenId token, float logit);

// Draws from the law of all tokens at this temperature, with the noise of the
// coupled walk; greedy (the largest logit, ties to the lower id) at 0.
struct DrawRequest {
  float temperature = 0;
  uint64_t seed = 0;

  friend bool operator==(const DrawRequest&, const DrawRequest&) = default;
};
struct DrawnToken {
  TokenId token = 0;
  bool near_tie = false;  // rounding could have decided, see kNearTie

  friend bool operator==(const DrawnToken&, const DrawnToken&) = default;
};
// The greedy draw. REQUIRES: finite logits, at least one.
DrawnToken LargestLogit(absl::Span<const float> logits);

// `position`: of the drawn token.
absl::StatusOr<DrawnToken> DrawFrom(absl::Span<const float> logits,
                                    const DrawRequest& request,
                                    int64_t position);

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

// The larger logit, then the lower id.
inline bool IsAhead(const RankedToken& a, const RankedToken& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGIT_ROW_H_
