#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

// Children of any node of `twins` that carry `token`, ascending. Children come
// after their parents, so the scan starts behind the first twin.
std::vector<int32_t> ChildrenWith(const TokenTree& tree,
                                  const std::vector<int32_t>& twins,
                                  TokenId token) {
  std::vector<int32_t> children;
  for (int32_t i = twins.front() + 1; i < tree.num_nodes(); ++i) {
    if (tree.tokens[i] == token &&
        std::binary_search(twins.begin(), twins.end(), tree.parents[i])) {
      children.push_back(i);
    }
  }
  return children;
}

class WalkRule final : public VerificationRule {
 public:
  LawUse law_use() const override { return LawUse::kOneDraw; }

  absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                    int64_t first_position, TargetLaws& laws,
                                    Chooser& chooser) override {
    // All nodes that spell the emitted tokens. Siblings may repeat a token, and
    // any of the twins may be the one whose subtree goes on.
    std::vector<int32_t> twins = {0};
    for (int64_t position = first_position;; ++position) {
      const int32_t node = twins.front();  // equal paths, equal laws
      ASSIGN_OR_RETURN(const TargetLaw law, laws.LawAt(node));
      const TokenId token = chooser.Draw(position, law);
      std::vector<int32_t> next = ChildrenWith(tree, twins, token);
      if (next.empty()) return Acceptance{tree.PathTo(node), token};
      twins = std::move(next);
    }
  }
};

}  // namespace

std::unique_ptr<VerificationRule> NewWalkRule() {
  return std::make_unique<WalkRule>();
}

}  // namespace espalier::verifier
