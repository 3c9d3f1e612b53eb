#ifndef ESPALIER_COORDINATOR_REQUEST_PLAN_H_
#define ESPALIER_COORDINATOR_REQUEST_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/spec/messages.h"
#include "coordinator/merge_policy.h"
#include "coordinator/request.h"
#include "coordinator/session.h"

namespace espalier::coordinator {

// What a request gets where it does not say.
struct RequestDefaults {
  int64_t max_tokens = 256;
  std::optional<int64_t> max_nodes;  // unset: as the policy has it
  int64_t max_depth = 8;
};

// What requests can be asked for now.
struct RequestScope {
  VerifierInfo verifier;
  std::vector<std::string> drafters;
  const std::map<std::string, std::unique_ptr<MergePolicy>>* policies = nullptr;
  RequestDefaults defaults;
};

// A request found good, with all its choices made.
struct RequestPlan {
  SessionParams session;
  DraftBudget budget;                   // max_nodes 0: plain decoding
  bool adaptive = false;                // less where less pays
  std::vector<int> drafters;            // indices into RequestScope::drafters
  std::string strategy;                 // resolved; "none" for plain decoding
  const MergePolicy* policy = nullptr;  // null for plain decoding
  std::string rule;
  ModelIdentity model;
  TargetShape target;

  // Whether the rule may read laws of drafts: the walk does not, and it stands
  // in for the others where nothing is drawn.
  bool reads_laws() const {
    return rule != "auto" && rule != "walk" && !session.sampling.greedy();
  }
};

// Errors are FieldErrors (request_errors.h).
absl::StatusOr<RequestPlan> PlanRequest(GenerationRequest request,
                                        const RequestScope& scope);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_REQUEST_PLAN_H_
