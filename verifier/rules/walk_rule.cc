#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

// Children of any node of `duplicates` that carry `token`, ascending. Children
// come after their parents, so the scan starts after the first duplicate.
std::vector<int32_t> ChildrenWith(const TokenTree& tree,
                                  const std::vector<int32_t>& duplicates,
                                  TokenId token) {
  std::vector<int32_t> children;
  for (int32_t i = duplicates.front() + 1; i < tree.num_nodes(); ++i) {
    if (tree.tokens[i] == token &&
        std::binary_search(duplicates.begin(), duplicates.end(),
                           tree.parents[i])) {
      children.push_back(i);
    }
  }
  return children;
}

class WalkRule final : public VerificationRule {
 public:
  RuleNeeds needs() const override { return {.logits = LogitNeed::kOneSample}; }

  absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                    int64_t first_position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    // All nodes whose path is the emitted tokens. Siblings may have the same
    // token, and the next token may be in the subtree of any of them.
    std::vector<int32_t> duplicates = {0};
    for (int64_t position = first_position;; ++position) {
      const int32_t node =
          duplicates.front();  // equal paths, equal distributions
      ASSIGN_OR_RETURN(const TargetDistribution distribution,
                       distributions.DistributionAt(node));
      const TokenId token = sampler.SampleToken(position, distribution);
      std::vector<int32_t> next = ChildrenWith(tree, duplicates, token);
      if (next.empty()) return Acceptance{tree.PathTo(node), token};
      duplicates = std::move(next);
    }
  }
};

}  // namespace

std::unique_ptr<VerificationRule> NewWalkRule() {
  return std::make_unique<WalkRule>();
}

}  // namespace espalier::verifier
