#include "common/speculation/draft_distributions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"

namespace espalier {
namespace {

// Returns what is malformed; empty: nothing.
absl::string_view Problem(const DraftDistribution& distribution,
                          int64_t vocab_size) {
  uint64_t sum = 0;
  for (size_t i = 0; i < distribution.tokens.size(); ++i) {
    const TokenId token = distribution.tokens[i];
    if (token < 0 || token >= vocab_size) return "a token is no token";
    if (i > 0 && distribution.tokens[i - 1] >= token)
      return "tokens do not ascend";
    if (distribution.weights[i] == 0) return "a weight is 0";
    sum += distribution.weights[i];
  }
  return sum == kDistributionTotal ? "" : "the weights do not sum to 2^24";
}

}  // namespace

int32_t DraftDistributions::Add(absl::Span<const TokenId> tokens,
                                absl::Span<const uint32_t> weights,
                                SampleDependence draws) {
  ESPALIER_CHECK(tokens.size() == weights.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  weights_.insert(weights_.end(), weights.begin(), weights.end());
  ends_.push_back(static_cast<int64_t>(tokens_.size()));
  draws_.push_back(draws);
  return size() - 1;
}

DraftDistribution DraftDistributions::operator[](int32_t distribution) const {
  const int64_t begin = distribution == 0 ? 0 : ends_[distribution - 1];
  const int64_t length = ends_[distribution] - begin;
  return {.tokens = absl::MakeSpan(tokens_).subspan(begin, length),
          .weights = absl::MakeSpan(weights_).subspan(begin, length),
          .draws = draws_[distribution]};
}

absl::Status DraftDistributions::Validate(int64_t vocab_size) const {
  for (int32_t i = 0; i < size(); ++i) {
    const absl::string_view problem = Problem((*this)[i], vocab_size);
    if (problem.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("draft tree: distribution ", i, ": ", problem));
  }
  return absl::OkStatus();
}

// Uses the method of largest remainders.
std::vector<uint32_t> DistributionWeights(
    absl::Span<const double> probabilities) {
  const double sum =
      std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  ESPALIER_CHECK(sum > 0 && std::isfinite(sum));
  std::vector<uint32_t> weights;
  std::vector<double> remainders;
  weights.reserve(probabilities.size());
  remainders.reserve(probabilities.size());
  uint32_t left = kDistributionTotal;
  for (double probability : probabilities) {
    const double share = probability / sum * kDistributionTotal;
    weights.push_back(std::min(static_cast<uint32_t>(share), left));
    remainders.push_back(probability > 0 ? share - weights.back() : -1);
    left -= weights.back();
  }
  // Their sum, rounded: at most one for each weight.
  ESPALIER_CHECK(left <= weights.size());
  std::vector<int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + left, order.end(),
                   [&](int32_t a, int32_t b) {
                     return remainders[a] != remainders[b]
                                ? remainders[a] > remainders[b]
                                : a < b;
                   });
  for (uint32_t i = 0; i < left; ++i) ++weights[order[i]];
  return weights;
}

}  // namespace espalier
