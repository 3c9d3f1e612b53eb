#ifndef ESPALIER_COORDINATOR_MERGE_MERGE_POLICIES_H_
#define ESPALIER_COORDINATOR_MERGE_MERGE_POLICIES_H_

#include <memory>

#include "common/base/registry.h"
#include "coordinator/merge/merge_policy.h"

namespace espalier::coordinator {

std::unique_ptr<MergePolicy> NewBudgetedMerge();
std::unique_ptr<MergePolicy> NewDisjointMerge();
std::unique_ptr<MergePolicy> NewRouteMerge();
std::unique_ptr<MergePolicy> NewSingleMerge();
std::unique_ptr<MergePolicy> NewUnionMerge();

// How sure a drafter is of its tree: the mean probability of its nodes, root
// excluded; 0 without any. The strategy `route` compares it.
double RouteScore(const TokenTree& tree);

// The list of merge policies. A request names one of them as its `strategy`.
void RegisterMergePolicies(Registry<MergePolicy>& registry);

// The strategy that "auto" stands for.
inline constexpr char kDefaultMergePolicy[] = "budgeted";

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_MERGE_POLICIES_H_
