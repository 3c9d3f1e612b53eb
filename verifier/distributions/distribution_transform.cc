#include "verifier/distributions/distribution_transform.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/logits/logit_row.h"
#include "common/speculation/noisy_argmax.h"

namespace espalier::verifier {

absl::StatusOr<TargetDistribution> DistributionTransform::Apply(
    absl::Span<const float> logits, const SamplingParams& sampling) {
  ESPALIER_CHECK(!logits.empty());
  RETURN_IF_ERROR(CheckFinite(logits));
  return Filtered(logits, sampling);
}

absl::StatusOr<TargetDistribution> DistributionTransform::Apply(
    absl::Span<const float> logits, const SamplingParams& sampling,
    Adjust adjust) {
  ESPALIER_CHECK(!logits.empty());
  RETURN_IF_ERROR(CheckFinite(logits));
  adjusted_.assign(logits.begin(), logits.end());
  adjust(absl::MakeSpan(adjusted_));
  return Filtered(adjusted_, sampling);
}

TargetDistribution DistributionTransform::Filtered(
    absl::Span<const float> logits, const SamplingParams& sampling) {
  if (sampling.greedy()) return Greedy(logits);
  Scale(logits, sampling.temperature);
  if (sampling.min_p > 0) KeepMinP(sampling.min_p);
  if (sampling.top_k > 0) KeepTopK(sampling.top_k);
  if (sampling.top_p < 1) KeepNucleus(sampling.top_p);
  if (sampling.typical_p < 1) KeepTypical(sampling.typical_p);
  TargetDistribution distribution = {.log_weights = weights_};
  if (!all_tokens_) distribution.tokens = tokens_;
  return distribution;
}

TargetDistribution DistributionTransform::Greedy(
    absl::Span<const float> logits) {
  const SampledToken largest = LargestLogit(logits);
  tokens_.assign(1, largest.token);
  weights_.assign(1, 0.0f);
  return {
      .tokens = tokens_, .log_weights = weights_, .near_tie = largest.near_tie};
}

void DistributionTransform::Scale(absl::Span<const float> logits,
                                  float temperature) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = LogWeight(logits[i], largest, temperature);
  }
  all_tokens_ = true;
}

// The likeliest token has the log-weight 0.
void DistributionTransform::KeepMinP(float min_p) {
  const float least = std::log(min_p);
  for (float& weight : weights_) {
    if (weight < least) weight = -std::numeric_limits<float>::infinity();
  }
}

// Runs while index and token id are the same.
void DistributionTransform::KeepTopK(size_t k) {
  if (k >= weights_.size()) return;
  ranked_ = weights_;
  std::nth_element(ranked_.begin(), ranked_.begin() + (k - 1), ranked_.end(),
                   std::greater<>());
  const float last = ranked_[k - 1];  // the k-th largest
  size_t room_at_last =
      k - std::count_if(weights_.begin(), weights_.end(),
                        [last](float weight) { return weight > last; });
  tokens_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < last) continue;
    if (weights_[i] == last) {
      if (room_at_last == 0) continue;
      --room_at_last;
    }
    weights_[tokens_.size()] = weights_[i];
    tokens_.push_back(static_cast<TokenId>(i));
  }
  weights_.resize(tokens_.size());
  all_tokens_ = false;
}

// The smallest set of most likely tokens whose mass reaches top_p; of equally
// likely ones the lower id comes first.
void DistributionTransform::KeepNucleus(float top_p) {
  double total = 0;
  for (float weight : weights_) total += std::exp(static_cast<double>(weight));

  // A heap instead of a sort: the nucleus is a small part of the vocabulary.
  heap_.resize(weights_.size());
  std::iota(heap_.begin(), heap_.end(), 0);
  const auto less_likely = [this](int32_t a, int32_t b) {
    return weights_[a] != weights_[b] ? weights_[a] < weights_[b] : a > b;
  };
  std::make_heap(heap_.begin(), heap_.end(), less_likely);
  auto rest = heap_.end();  // the nucleus is from here on
  double mass = 0;
  do {
    std::pop_heap(heap_.begin(), rest, less_likely);
    --rest;
    mass += std::exp(static_cast<double>(weights_[*rest]));
  } while (mass < top_p * total && rest != heap_.begin());

  std::sort(rest, heap_.end());
  Keep(absl::MakeConstSpan(&*rest, heap_.end() - rest));
}

// The smallest set of tokens whose mass reaches typical_p, those first whose
// surprisal is nearest to the entropy; of equals the likelier, then the lower
// id.
void DistributionTransform::KeepTypical(float typical_p) {
  double total = 0, mean_weight = 0;
  for (float weight : weights_) {
    const double mass = std::exp(static_cast<double>(weight));
    total += mass;
    if (mass > 0) mean_weight += mass * weight;
  }
  mean_weight /= total;  // entropy = log(total) - mean_weight
  heap_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (std::isfinite(weights_[i])) heap_.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(heap_.begin(), heap_.end(), [&](int32_t a, int32_t b) {
    const double far_a = std::abs(weights_[a] - mean_weight);
    const double far_b = std::abs(weights_[b] - mean_weight);
    return far_a != far_b ? far_a < far_b : weights_[a] > weights_[b];
  });
  size_t kept = 0;
  double mass = 0;
  do {
    mass += std::exp(static_cast<double>(weights_[heap_[kept++]]));
  } while (mass < typical_p * total && kept < heap_.size());
  std::sort(heap_.begin(), heap_.begin() + kept);
  Keep(absl::MakeConstSpan(heap_).first(kept));
}

// Only the entries at `indices`, ascending.
void DistributionTransform::Keep(absl::Span<const int32_t> indices) {
  if (all_tokens_) tokens_.resize(weights_.size());
  for (size_t kept = 0; kept < indices.size(); ++kept) {
    weights_[kept] = weights_[indices[kept]];
    tokens_[kept] = all_tokens_ ? indices[kept] : tokens_[indices[kept]];
  }
  weights_.resize(indices.size());
  tokens_.resize(indices.size());
  all_tokens_ = false;
}

}  // namespace espalier::verifier
