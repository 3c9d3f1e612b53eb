#ifndef ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_
#define ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

struct MergedTwins {
  TokenTree tree;              // no siblings with the same token
  std::vector<int32_t> first;  // [its nodes] the first of the twins
  std::vector<int32_t> into;   // [nodes before] what they became
};

// Nodes that spell the same text become one, which keeps all their slots; laws
// that say the same become one. REQUIRES: `tree` is valid and claims laws.
MergedTwins MergeTwins(const TokenTree& tree);

// A tree's laws, asked for by the nodes of the tree with its twins merged.
// Borrows both.
class LawsOfFirsts final : public TargetLaws {
 public:
  LawsOfFirsts(TargetLaws& laws, const MergedTwins& merged)
      : laws_(laws), first_(merged.first) {}

  absl::StatusOr<TargetLaw> LawAt(int32_t node) override {
    return laws_.LawAt(first_[node]);
  }
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override {
    return laws_.Gather(first_[node], support, inside);
  }
  absl::StatusOr<TokenId> DrawOutside(int32_t node,
                                      absl::Span<const TokenId> support,
                                      int64_t round,
                                      Chooser& chooser) override {
    return laws_.DrawOutside(first_[node], support, round, chooser);
  }

 private:
  TargetLaws& laws_;
  absl::Span<const int32_t> first_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_
