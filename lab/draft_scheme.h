// Schemes that draft a tree from the distributions of models.
#ifndef ESPALIER_LAB_DRAFT_SCHEME_H_
#define ESPALIER_LAB_DRAFT_SCHEME_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "lab/sequence_model.h"

namespace espalier::verifier {

// The choice of one child token from a drafter's distribution after its parent.
struct DraftStep {
  enum class Kind {
    kSampled,   // an independent draw
    kDistinct,  // a draw without the tokens of earlier kDistinct steps there
    kTop,   // the rank-th likeliest token, ties to the lower id: deterministic
    kRest,  // a draw from the distribution without its `rank` likeliest tokens
  };
  int32_t parent =
      0;  // 0: the root; else the index of an earlier step, plus one
  int32_t drafter = 0;
  Kind kind = Kind::kSampled;
  int64_t rank = 0;
};

struct DraftScheme {
  std::vector<DraftStep> steps;
  // Siblings with the same token become one node with all the samples.
  bool merge_duplicates = true;
  // Nothing is drafted after this token.
  std::optional<TokenId> end_token = {};
};

// An index, with probability weights[index]. The weights sum to 1.
using DrawIndex = std::function<int64_t(absl::Span<const double> weights)>;

// Returns the tree of a scheme, with true distributions. Draws are from the
// distributions as transmitted, rounded to integers. A step whose parent is
// missing, or whose distribution has no token left, is omitted. REQUIRES: rank
// < vocab for kTop steps.
TokenTree DraftTree(const DraftScheme& scheme,
                    absl::Span<const SequenceModel* const> drafters,
                    const DrawIndex& draw);

// ---- Shapes: the children of the k-th child of a node -----------------------

// Parents as in DraftStep, breadth first.
using Shape = std::vector<int32_t>;
Shape MultiChain(int64_t branch, int64_t depth);
// The i-th of s siblings has max(s - i, 1) children.
Shape Tapered(int64_t branch, int64_t depth);
// branches[t]: children of each node of depth t.
Shape Branching(absl::Span<const int64_t> branches);

// ---- Schemes over shapes, by one drafter ------------------------------------

DraftScheme AllSampled(const Shape& shape);
DraftScheme WithoutReplacement(const Shape& shape);
DraftScheme AllTop(const Shape& shape);
// All children but one are the likeliest, and one is sampled from the others.
// Hu et al., "Towards Optimal Multi-Draft Speculative Decoding", 2502.18779.
DraftScheme GreedyPlusOne(const Shape& shape);

}  // namespace espalier::verifier

#endif  // ESPALIER_LAB_DRAFT_SCHEME_H_
