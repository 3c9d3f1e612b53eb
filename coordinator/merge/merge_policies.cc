#include "coordinator/merge/merge_policies.h"

namespace espalier::coordinator {

void RegisterMergePolicies(Registry<MergePolicy>& registry) {
  registry.Add("budgeted", NewBudgetedMerge);
  registry.Add("disjoint", NewDisjointMerge);
  registry.Add("route", NewRouteMerge);
  registry.Add("single", NewSingleMerge);
  registry.Add("union", NewUnionMerge);
}

}  // namespace espalier::coordinator
