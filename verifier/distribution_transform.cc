#include "verifier/distribution_transform.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/logits/logit_row.h"
#include "common/spec/noisy_argmax.h"

namespace espalier::verifier {

absl::StatusOr<TargetDistribution> DistributionTransform::Apply(
    absl::Span<const float> logits, const SamplingParams& sampling) {
  ESPALIER_CHECK(!logits.empty());
  RETURN_IF_ERROR(CheckFinite(logits));
  if (sampling.greedy()) return Greedy(logits);
  Scale(logits, sampling.temperature);
  if (sampling.top_k > 0) KeepTopK(sampling.top_k);
  if (sampling.top_p < 1) KeepNucleus(sampling.top_p);
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

// Runs first of the filters, while index and token id are the same.
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
  size_t kept = 0;
  if (all_tokens_) tokens_.resize(heap_.end() - rest);
  for (auto index = rest; index != heap_.end(); ++index, ++kept) {
    weights_[kept] = weights_[*index];
    tokens_[kept] = all_tokens_ ? *index : tokens_[*index];
  }
  weights_.resize(kept);
  tokens_.resize(kept);
  all_tokens_ = false;
}

}  // namespace espalier::verifier
