#include <algorithm>
#include <memory>

#include "coordinator/merge/token_trie.h"
#include "tests/extension/plugins/plugins.h"

namespace espalier::extension {
namespace {

using coordinator::DraftedTree;
using coordinator::MergeInput;

// Takes the tree that arrives first; the round does not wait for others.
class SoonestPolicy final : public coordinator::MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    const auto soonest = std::min_element(
        input.trees.begin(), input.trees.end(),
        [](const DraftedTree& a, const DraftedTree& b) {
          return a.arrived != b.arrived ? a.arrived < b.arrived
                                        : a.drafter < b.drafter;
        });
    const size_t count = soonest == input.trees.end() ? 0 : 1;
    return coordinator::TokenTrie(input.root, {soonest, count})
        .Likeliest(input.max_nodes);
  }

  bool HasEnough(const MergeInput& input) const override {
    return std::any_of(input.trees.begin(), input.trees.end(),
                       [](const DraftedTree& tree) { return tree.whole; });
  }
};

}  // namespace

void RegisterSoonestPolicy(Registry<coordinator::MergePolicy>& registry) {
  registry.Add("soonest", [] { return std::make_unique<SoonestPolicy>(); });
}

}  // namespace espalier::extension
