#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/distributions/distribution_weights.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {
namespace {

// Calls see(i, place) for every entry of the distribution: place is the index
// of its token in the support, or kOutside. Both ascend.
constexpr int64_t kOutside = -1;
template <typename See>
void ForEachEntry(const TargetDistribution& distribution,
                  absl::Span<const TokenId> support, See see) {
  int64_t next = 0;
  for (int64_t i = 0; i < std::ssize(distribution.log_weights); ++i) {
    const TokenId token = distribution.token(i);
    while (next < std::ssize(support) && support[next] < token) ++next;
    const bool is_inside = next < std::ssize(support) && support[next] == token;
    see(i, is_inside ? next : kOutside);
  }
}

}  // namespace

absl::StatusOr<double> TargetDistributions::Gather(
    int32_t node, absl::Span<const TokenId> support,
    absl::Span<double> inside) {
  ASSIGN_OR_RETURN(const TargetDistribution distribution, DistributionAt(node));
  double outside = 0;
  std::fill(inside.begin(), inside.end(), 0);
  ForEachEntry(distribution, support, [&](int64_t i, int64_t place) {
    const double weight = DistributionWeights::WeightOf(distribution, i);
    (place == kOutside ? outside : inside[place]) += weight;
  });
  return Normalize(inside, outside);
}

absl::StatusOr<TokenId> TargetDistributions::SampleOutside(
    int32_t node, absl::Span<const TokenId> support, int64_t round,
    TokenSampler& sampler) {
  ASSIGN_OR_RETURN(const TargetDistribution distribution, DistributionAt(node));
  std::vector<TokenId> tokens;
  std::vector<float> log_weights;
  std::vector<double> probabilities;
  ForEachEntry(distribution, support, [&](int64_t i, int64_t place) {
    if (place != kOutside) return;
    tokens.push_back(distribution.token(i));
    log_weights.push_back(distribution.log_weights[i]);
    if (!distribution.probabilities.empty()) {
      probabilities.push_back(distribution.probabilities[i]);
    }
  });
  return sampler.SampleOutside(round, {.tokens = tokens,
                                       .log_weights = log_weights,
                                       .probabilities = probabilities});
}

}  // namespace espalier::verifier
