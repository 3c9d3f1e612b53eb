#include "common/model/logits/logit_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/noisy_argmax.h"

namespace espalier {
SampledToken LargestLogit(absl::Span<const float> logits) {
  size_t best = 0;
  float second = -std::numeric_limits<float>::infinity();
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) {
      second = logits[best];
      best = i;
    } else {
      second = std::max(second, logits[i]);
    }
  }
  return {.token = static_cast<TokenId>(best),
          .near_tie = logits[best] - second <= kNearTie};
}

absl::Status CheckFinite(absl::Span<const float> logits) {
  bool all_finite = true;
  for (float logit : logits) all_finite &= std::isfinite(logit);
  if (all_finite) return absl::OkStatus();
  const auto bad = std::find_if(logits.begin(), logits.end(),
                                [](float x) { return !std::isfinite(x); });
  return NotFinite(static_cast<TokenId>(bad - logits.begin()), *bad);
}

absl::Status NotFinite(TokenId token, float logit) {
  return absl::InternalError(
      absl::StrCat("logit of token ", token, " is ", logit));
}

absl::StatusOr<SampledToken> DrawFrom(absl::Span<const float> logits,
                                      const DrawRequest& request,
                                      int64_t position,
                                      absl::Span<const TokenId> without) {
  ESPALIER_CHECK(without.size() < logits.size());
  RETURN_IF_ERROR(CheckFinite(logits));
  if (request.temperature == 0) return LargestLogit(logits);
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  const auto token = [](int64_t i) { return static_cast<TokenId>(i); };
  const auto weight = [&](int64_t i) {
    if (std::binary_search(without.begin(), without.end(), token(i))) {
      return -std::numeric_limits<float>::infinity();
    }
    return LogWeight(logits[i], *likeliest, request.temperature);
  };
  NoisyArgmax argmax(GumbelNoise(request.seed, position, request.noise));
  argmax.ConsiderAll(static_cast<int64_t>(logits.size()),
                     likeliest - logits.begin(), token, weight);
  return SampledToken{.token = argmax.winner(),
                      .near_tie = argmax.near_tie(),
                      .log_weight = weight(argmax.winner())};
}

absl::StatusOr<Ranking> RankFrom(absl::Span<const float> logits,
                                 const RankRequest& request) {
  ESPALIER_CHECK(!logits.empty());
  RETURN_IF_ERROR(CheckFinite(logits));
  std::vector<RankedToken> all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    all[i] = {static_cast<TokenId>(i), logits[i]};
  }
  const int64_t kept =
      std::min<int64_t>(request.top_k, static_cast<int64_t>(all.size()));
  std::partial_sort(all.begin(), all.begin() + kept, all.end(), IsAhead);
  all.resize(kept);

  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return Ranking{.top = std::move(all), .log_sum_exp = largest + std::log(sum)};
}

absl::StatusOr<GatheredRow> GatherFrom(absl::Span<const float> logits,
                                       const GatherRequest& request,
                                       int64_t index) {
  RETURN_IF_ERROR(CheckFinite(logits));
  const float largest = *std::max_element(logits.begin(), logits.end());
  absl::Span<const TokenId> support = request.supports->Of(index);
  GatheredRow row;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float weight = LogWeight(logits[i], largest, request.temperature);
    if (!support.empty() && support.front() == static_cast<TokenId>(i)) {
      row.log_weights.push_back(weight);
      support.remove_prefix(1);
    } else {
      row.outside += std::exp(static_cast<double>(weight));
    }
  }
  return row;
}

absl::StatusOr<SampledToken> SampleOutsideFrom(absl::Span<const float> logits,
                                               const GatherRequest& request,
                                               int64_t index) {
  return DrawFrom(logits, request.OutsideDraw(), request.round,
                  request.supports->Of(index));
}

}  // namespace espalier
