#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/law_weights.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {
namespace {

// Calls see(i, place) for every entry of the law: place is that of its token in
// the support, or kOutside. Both ascend.
constexpr int64_t kOutside = -1;
template <typename See>
void ForEachEntry(const TargetLaw& law, absl::Span<const TokenId> support,
                  See see) {
  int64_t next = 0;
  for (int64_t i = 0; i < std::ssize(law.log_weights); ++i) {
    const TokenId token = law.token(i);
    while (next < std::ssize(support) && support[next] < token) ++next;
    const bool is_inside = next < std::ssize(support) && support[next] == token;
    see(i, is_inside ? next : kOutside);
  }
}

}  // namespace

absl::StatusOr<double> TargetLaws::Gather(int32_t node,
                                          absl::Span<const TokenId> support,
                                          absl::Span<double> inside) {
  ASSIGN_OR_RETURN(const TargetLaw law, LawAt(node));
  double outside = 0;
  std::fill(inside.begin(), inside.end(), 0);
  ForEachEntry(law, support, [&](int64_t i, int64_t place) {
    const double weight = LawWeights::WeightOf(law, i);
    (place == kOutside ? outside : inside[place]) += weight;
  });
  return Normalize(inside, outside);
}

absl::StatusOr<TokenId> TargetLaws::DrawOutside(
    int32_t node, absl::Span<const TokenId> support, int64_t round,
    Chooser& chooser) {
  ASSIGN_OR_RETURN(const TargetLaw law, LawAt(node));
  std::vector<TokenId> tokens;
  std::vector<float> log_weights;
  std::vector<double> probabilities;
  ForEachEntry(law, support, [&](int64_t i, int64_t place) {
    if (place != kOutside) return;
    tokens.push_back(law.token(i));
    log_weights.push_back(law.log_weights[i]);
    if (!law.probabilities.empty()) {
      probabilities.push_back(law.probabilities[i]);
    }
  });
  return chooser.DrawOutside(round, {.tokens = tokens,
                                     .log_weights = log_weights,
                                     .probabilities = probabilities});
}

}  // namespace espalier::verifier
