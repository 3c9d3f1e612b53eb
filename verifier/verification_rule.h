#ifndef ESPALIER_VERIFIER_VERIFICATION_RULE_H_
#define ESPALIER_VERIFIER_VERIFICATION_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "common/spec/types.h"

namespace espalier::verifier {

// The target's law after a node as log-weights (not normalised), after every
// transform of the request. Tokens that are absent, or weigh -inf, cannot be
// drawn. Valid until the next LawAt of its source.
struct TargetLaw {
  absl::Span<const TokenId> tokens;  // [n] ascending; empty: the ids 0 .. n-1
  absl::Span<const float> log_weights;  // [n] finite or -inf, not all -inf
  // [n] or empty: the same law, not normalised, where the source has it to more
  // digits than the log-weights hold. For rules that subtract laws.
  absl::Span<const double> probabilities = {};
  // The law is that of a token which rounding could have decided: another came
  // close to its logit or its score. For statistics; no rule reads it.
  bool near_tie = false;

  TokenId token(int64_t i) const {
    return tokens.empty() ? static_cast<TokenId>(i) : tokens[i];
  }
};

// The only source of randomness of a rule. Production draws from noise that is
// a function of (seed, position, token); the exactness tests enumerate every
// outcome with its probability and so get the law of the shipped code.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // Draws the token at an absolute position. The same position and law give
  // the same token; draws at different positions are independent.
  virtual TokenId Draw(int64_t position, const TargetLaw& law) = 0;

  // Draws an index, with probability weights[i] over their sum. Every call is
  // independent of all others and of Draw, also of other rounds' calls: `round`
  // is the first position of the round. REQUIRES: weights >= 0, not all 0.
  virtual int64_t Choose(int64_t round, absl::Span<const double> weights) = 0;

  // Draws the token of a round that is none of its tree's: `law` is what is
  // left of the target's without them. A function of round and law, at most
  // once per round, and independent of all Draws and Choices: drafts may have
  // foreseen the one, and the others led here.
  virtual TokenId DrawOutside(int64_t round, const TargetLaw& law) = 0;
};

// The target's laws at the nodes of a tree. Computed when asked, so that a rule
// pays only for the nodes it visits.
class TargetLaws {
 public:
  virtual ~TargetLaws() = default;
  virtual absl::StatusOr<TargetLaw> LawAt(int32_t node) = 0;

  // What rules that read laws of drafts need to know of the target: its
  // probability of some tokens, ascending, which `inside` takes, and of all
  // others together, which is returned (exactly 0: there are none); and a draw
  // from the others, by the chooser's DrawOutside. Where the law is far away
  // only this has to travel. Here both are taken from LawAt. REQUIRES of
  // DrawOutside: the others are not 0.
  virtual absl::StatusOr<double> Gather(int32_t node,
                                        absl::Span<const TokenId> support,
                                        absl::Span<double> inside);
  virtual absl::StatusOr<TokenId> DrawOutside(int32_t node,
                                              absl::Span<const TokenId> support,
                                              int64_t round, Chooser& chooser);
};

struct Acceptance {
  std::vector<int32_t> path;  // accepted nodes, from a child of the root down
  TokenId bonus_token = 0;    // emitted after them
};

// What a rule asks of the laws at a tree's nodes, so that a pass need not make
// the rest.
enum class LawUse {
  kWhole,     // anything
  kOneDraw,   // LawAt, for nothing but one draw at the node's own position
  kGathered,  // Gather and DrawOutside, with no token that is not in the node's
              // TreeSupports (verifier/flow/tree_supports.h)
};

// Decides which drafted tokens stand. A rule in the product is lossless: what
// it emits has the law of plain sampling from the target. The walk keeps that
// whatever the tree, rules that read laws keep it if what the tree claims of
// its slots is true. Remembers nothing from call to call but its buffers;
// not thread-safe.
class VerificationRule {
 public:
  virtual ~VerificationRule() = default;

  // What Accept does with the laws of trees that are not refused.
  virtual LawUse law_use() const { return LawUse::kWhole; }

  // Why the rule is not for this tree, in a word; empty: it is. The walk takes
  // what others refuse. Looks at no token, and at nothing random.
  virtual absl::string_view Refusal(const TokenTree& /*tree*/) { return ""; }

  // `first_position`: absolute position of the first emitted token, which is
  // the number of committed tokens. REQUIRES: tree is valid and not refused.
  // Errors are those of `laws`.
  virtual absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                            int64_t first_position,
                                            TargetLaws& laws,
                                            Chooser& chooser) = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFICATION_RULE_H_
