#ifndef ESPALIER_DRAFTER_DFLASH_DDTREE_H_
#define ESPALIER_DRAFTER_DFLASH_DDTREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/messages.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// The largest node budget, here and in the coordinator.
inline constexpr int64_t kMaxDdtreeNodes = 1024;

// The output of a block drafter: entry d holds the candidates of the token d +
// 1 positions after the root, independent of the tokens between. Likeliest
// first.
using Marginals = absl::Span<const std::vector<Candidate>>;

// Returns the tree of the budget.max_nodes likeliest paths when the positions
// are taken as independent: the one with the largest expected acceptance, which
// is the sum of e^log_prob over its nodes (Ringel, Romano, arXiv 2604.12989).
// Nodes are in order of falling log_prob, so every prefix of the list is the
// best tree of its size. Ties go to the path whose ranks (its candidates'
// indices in their lists) come first lexicographically. O(n log n). REQUIRES:
// lists sorted, tokens of a list distinct, log_prob <= 0.
TokenTree BuildDdtree(TokenId root, Marginals marginals,
                      const DraftBudget& budget);

// Returns the likeliest path alone, as in plain block drafting.
TokenTree BuildChain(TokenId root, Marginals marginals,
                     const DraftBudget& budget);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DDTREE_H_
