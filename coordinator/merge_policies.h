#ifndef ESPALIER_COORDINATOR_MERGE_POLICIES_H_
#define ESPALIER_COORDINATOR_MERGE_POLICIES_H_

#include <memory>

#include "common/base/registry.h"
#include "coordinator/merge_policy.h"

namespace espalier::coordinator {

std::unique_ptr<MergePolicy> NewBudgetedMerge();
std::unique_ptr<MergePolicy> NewDisjointMerge();
std::unique_ptr<MergePolicy> NewRouteMerge();
std::unique_ptr<MergePolicy> NewSingleMerge();
std::unique_ptr<MergePolicy> NewUnionMerge();

// How sure a drafter is of its tree: the mean chance of the nodes, root
// excluded; 0 without any. What route compares.
double RouteScore(const TokenTree& tree);

// THE list of merge policies. Their names are what a request calls `strategy`.
void RegisterMergePolicies(Registry<MergePolicy>& registry);

// What the strategy "auto" stands for.
inline constexpr char kDefaultMergePolicy[] = "budgeted";

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_POLICIES_H_
