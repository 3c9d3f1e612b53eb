#ifndef ESPALIER_DRAFTER_TREES_TREE_BUILDER_H_
#define ESPALIER_DRAFTER_TREES_TREE_BUILDER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "drafter/engine/drafter.h"
#include "drafter/engine/option_reader.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

struct TreeShape {
  int64_t width = 0;         // most children of a node; 0: no limit
  double noise_scale = 1.0;  // > 0, see ApplyGumbelCoupling
};

// Reads the options of all drafters that build trees: width, and noise_scale
// with its default.
TreeShape ReadTreeShape(OptionReader& reader, double noise_scale = 1);

// The drafter's distribution over the token after the committed tokens and
// `path` (the tokens below the root, at most max_depth - 1). Called once for
// each expanded node. Any order; a context without a prediction has no
// candidates.
using NextTokens =
    absl::FunctionRef<std::vector<Candidate>(absl::Span<const TokenId> path)>;

// Returns the tree of the max_nodes likeliest paths within the view's budget,
// grown best-first, so that every prefix of the node list is the best tree of
// its size. Under sampling it accounts for the noise of the coupled walk.
// log_prob is the estimated chance that the target accepts the whole path.
// Deterministic: ties go to the earlier parent, then to the lower token id.
TokenTree BuildTree(const SequenceView& view, const TreeShape& shape,
                    NextTokens next_tokens);

// Returns the last `length` tokens of `tokens` followed by `path`; all if
// fewer.
std::vector<TokenId> RecentTokens(absl::Span<const TokenId> tokens,
                                  absl::Span<const TokenId> path,
                                  int64_t length);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_TREES_TREE_BUILDER_H_
