#ifndef ESPALIER_COMMON_SPECULATION_DRAFT_DISTRIBUTIONS_H_
#define ESPALIER_COMMON_SPECULATION_DRAFT_DISTRIBUTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

// The weights of a distribution sum to this.
inline constexpr uint32_t kDistributionTotal = 1 << 24;

// The most tokens that a peer may send, which bounds the verifier's memory: in
// one distribution, and in all distributions of a tree.
inline constexpr int64_t kMaxDistributionTokens = 2048;
inline constexpr int64_t kMaxTreeDistributionTokens =
    256 * kMaxDistributionTokens;

// How several tokens are sampled from one distribution.
enum class SampleDependence : uint8_t {
  kIndependent,
  // Each sample, in the order of the samples, is sampled from the distribution
  // without the tokens sampled before. All samples have one parent and differ.
  kWithoutReplacement,
};

// A distribution that a drafter sampled tokens from: token i has probability
// weights[i] / kDistributionTotal. It is truncated to the most likely tokens
// and rounded before anything is sampled, so that drafter and verifier use the
// same distribution to the bit.
struct DraftDistribution {
  absl::Span<const TokenId> tokens;  // [n] ascending
  // [n] > 0, their sum is kDistributionTotal.
  absl::Span<const uint32_t> weights;
  SampleDependence draws = SampleDependence::kIndependent;
};

// The distributions of a tree, by index.
class DraftDistributions {
 public:
  // Appends a distribution and returns its index. Weights and lengths are not
  // checked.
  int32_t Add(absl::Span<const TokenId> tokens,
              absl::Span<const uint32_t> weights,
              SampleDependence draws = SampleDependence::kIndependent);
  int32_t Add(const DraftDistribution& distribution) {
    return Add(distribution.tokens, distribution.weights, distribution.draws);
  }

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  // REQUIRES: 0 <= distribution < size().
  DraftDistribution operator[](int32_t distribution) const;

  // INVALID_ARGUMENT names the first malformed distribution.
  absl::Status Validate(int64_t vocab_size) const;

  friend bool operator==(const DraftDistributions&,
                         const DraftDistributions&) = default;

 private:
  std::vector<int64_t> ends_;            // [distributions] in the columns below
  std::vector<TokenId> tokens_;          // of all distributions
  std::vector<uint32_t> weights_;        // of all distributions
  std::vector<SampleDependence> draws_;  // [distributions]
};

// How a node was proposed, once.
struct DraftSample {
  // Selected, not sampled: e.g. a most likely token, or one that was looked up.
  static constexpr int32_t kDeterministic = -1;

  int32_t node = 0;
  // kDeterministic, or the index of the distribution it was sampled from.
  int32_t distribution = kDeterministic;

  friend bool operator==(const DraftSample&, const DraftSample&) = default;
};

// Rounds probabilities (>= 0, not all 0; need not be normalised) to integer
// weights that sum to kDistributionTotal. Each weight is within 1 of its exact
// share; small ones become 0.
std::vector<uint32_t> DistributionWeights(
    absl::Span<const double> probabilities);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_DRAFT_DISTRIBUTIONS_H_
