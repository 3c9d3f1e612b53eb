#ifndef ESPALIER_VERIFIER_RULES_VERIFICATION_RULE_H_
#define ESPALIER_VERIFIER_RULES_VERIFICATION_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier::verifier {

// The target's distribution after a node as log-weights (not normalised), after
// every transform of the request. Tokens that are absent, or weigh -inf, cannot
// be sampled. Valid until the next DistributionAt of its source.
struct TargetDistribution {
  // [n] ascending; empty: the ids 0 .. n-1
  absl::Span<const TokenId> tokens = {};
  absl::Span<const float> log_weights;  // [n] finite or -inf, not all -inf
  // [n] or empty: the same distribution, not normalised, in higher precision
  // than the log-weights, where the source has it. For rules that subtract
  // distributions.
  absl::Span<const double> probabilities = {};
  // The distribution holds a token that rounding could have decided: another
  // token's logit or score was close. For statistics; no rule reads it.
  bool near_tie = false;

  TokenId token(int64_t i) const {
    return tokens.empty() ? static_cast<TokenId>(i) : tokens[i];
  }
};

// The only source of randomness of a rule. In production the noise is a
// function of (seed, position, token). The exactness tests enumerate every
// outcome with its probability and so compute the output distribution of the
// shipped code.
class TokenSampler {
 public:
  virtual ~TokenSampler() = default;
  // Draws the token at an absolute position. The same position and distribution
  // give the same token; draws at different positions are independent.
  virtual TokenId SampleToken(int64_t position,
                              const TargetDistribution& distribution) = 0;

  // Draws index i with probability weights[i] over the sum of all weights.
  // Every call is independent of all other calls, of SampleToken, and of the
  // calls of other rounds. `round` is the first position of the round.
  // REQUIRES: weights >= 0, not all 0.
  virtual int64_t SampleIndex(int64_t round,
                              absl::Span<const double> weights) = 0;

  // Draws a token that is not in the round's tree. `distribution` is the
  // target's without the tree's tokens. The result is a function of round and
  // distribution, is drawn at most once per round, and is independent of
  // SampleToken and SampleIndex: a drafter may have predicted the noise of
  // SampleToken, and the results of SampleIndex led to this call.
  virtual TokenId SampleOutside(int64_t round,
                                const TargetDistribution& distribution) = 0;
};

// The target's distributions at the nodes of a tree. Computed on demand, so
// that a rule pays only for the nodes it visits.
class TargetDistributions {
 public:
  virtual ~TargetDistributions() = default;
  virtual absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) = 0;

  // The part of the target's distribution that rules which read draft
  // distributions need. Gather writes the probabilities of the tokens in
  // `support` (ascending) to `inside` and returns the sum over all other tokens
  // (exactly 0: there are none). SampleOutside draws one of the other tokens
  // with the sampler's SampleOutside. If the distribution is on another device,
  // only these values are copied. These default implementations use
  // DistributionAt. SampleOutside REQUIRES: the other tokens' sum is not 0.
  virtual absl::StatusOr<double> Gather(int32_t node,
                                        absl::Span<const TokenId> support,
                                        absl::Span<double> inside);
  virtual absl::StatusOr<TokenId> SampleOutside(
      int32_t node, absl::Span<const TokenId> support, int64_t round,
      TokenSampler& sampler);
};

struct Acceptance {
  // accepted nodes, from a child of the root down
  std::vector<int32_t> path = {};
  TokenId bonus_token = 0;  // emitted after them
};

// Which part of the distributions at a tree's nodes a rule uses. The pass need
// not compute the rest.
enum class LogitNeed {
  kWhole,      // anything
  kOneSample,  // DistributionAt, only for one draw at the node's own position
  kGathered,   // Gather and SampleOutside, only with tokens of the node's
               // TreeSupports (verifier/flow/tree_supports.h)
};

// Says what a rule needs, the same in every round.
struct RuleNeeds {
  LogitNeed logits = LogitNeed::kWhole;  // of the target
  // Is true if the rule reads, above temperature 0, the distributions that a
  // tree was sampled from. If so, merging keeps them.
  bool draft_distributions = false;
  // Is true if the rule is only for rounds above temperature 0. Other rules are
  // exact at every temperature.
  bool sampling = false;
};

// Decides which drafted tokens are accepted. Every rule of the product is
// lossless: its output has the distribution of plain sampling from the target.
// The walk is lossless for every tree. Rules that read draft distributions are
// lossless if the tree's claims about its samples are true. Keeps no state
// between calls except buffers; not thread-safe.
class VerificationRule {
 public:
  virtual ~VerificationRule() = default;

  virtual RuleNeeds needs() const { return {}; }

  // Why the rule does not support this tree, in one word; empty: it does. The
  // default rule verifies the trees that others refuse. Must not depend on
  // tokens or on anything random.
  virtual absl::string_view UnsupportedReason(const TokenTree& /*tree*/) {
    return "";
  }

  // `first_position`: absolute position of the first emitted token, which is
  // the number of committed tokens. REQUIRES: the tree is valid and supported.
  // Returns the errors of `distributions`.
  virtual absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                            int64_t first_position,
                                            TargetDistributions& distributions,
                                            TokenSampler& sampler) = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_RULES_VERIFICATION_RULE_H_
