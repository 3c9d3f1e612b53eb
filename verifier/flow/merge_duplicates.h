#ifndef ESPALIER_VERIFIER_FLOW_MERGE_DUPLICATES_H_
#define ESPALIER_VERIFIER_FLOW_MERGE_DUPLICATES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

struct MergedDuplicates {
  TokenTree tree;              // no siblings with the same token
  std::vector<int32_t> first;  // [merged nodes] the first of the duplicates
  std::vector<int32_t> into;   // [original nodes] the merged node of each
};

// Merges nodes with the same path of tokens into one that keeps all their
// samples; merges equal distributions. REQUIRES: `tree` is valid and claims
// distributions.
MergedDuplicates MergeDuplicates(const TokenTree& tree);

// A tree's distributions, indexed by the nodes of the merged tree. Borrows both
// arguments.
class DistributionsOfFirsts final : public TargetDistributions {
 public:
  DistributionsOfFirsts(TargetDistributions& distributions,
                        const MergedDuplicates& merged)
      : distributions_(distributions), first_(merged.first) {}

  absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) override {
    return distributions_.DistributionAt(first_[node]);
  }
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override {
    return distributions_.Gather(first_[node], support, inside);
  }
  absl::StatusOr<TokenId> SampleOutside(int32_t node,
                                        absl::Span<const TokenId> support,
                                        int64_t round,
                                        TokenSampler& sampler) override {
    return distributions_.SampleOutside(first_[node], support, round, sampler);
  }

 private:
  TargetDistributions& distributions_;
  absl::Span<const int32_t> first_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_MERGE_DUPLICATES_H_
