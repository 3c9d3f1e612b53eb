#include "coordinator/control/accepted_length.h"

#include <algorithm>
#include <vector>

namespace espalier::coordinator {

int64_t AcceptedLength(const TokenTree& tree,
                       absl::Span<const TokenId> emitted) {
  const int64_t num_emitted = static_cast<int64_t>(emitted.size());
  std::vector<int64_t> matched(tree.num_nodes(), -1);  // -1: path left the text
  matched[0] = 0;
  int64_t longest = 0;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    const int64_t depth = matched[tree.parents[i]];
    if (depth < 0 || depth == num_emitted) continue;
    if (tree.tokens[i] != emitted[depth]) continue;
    matched[i] = depth + 1;
    longest = std::max(longest, matched[i]);
  }
  return longest;
}

}  // namespace espalier::coordinator
