#include "drafter/ngram/backoff_distribution.h"

#include <cmath>

#include "common/base/check.h"

namespace espalier::drafter {

void BackoffDistribution::Refine(const SuccessorCounts& counts) {
  ESPALIER_CHECK(counts.total > 0);
  const double denominator =
      static_cast<double>(counts.total + counts.distinct);
  const double left_to_shorter =
      static_cast<double>(counts.distinct) / denominator;
  for (auto& [token, probability] : probabilities_) {
    probability *= left_to_shorter;
  }
  for (const SuccessorCount& successor : counts.successors) {
    probabilities_[successor.token] += successor.count / denominator;
  }
}

std::vector<Candidate> BackoffDistribution::Candidates() const {
  std::vector<Candidate> candidates;
  candidates.reserve(probabilities_.size());
  for (const auto& [token, probability] : probabilities_) {
    candidates.push_back({.token = token, .log_prob = std::log(probability)});
  }
  return candidates;
}

}  // namespace espalier::drafter
