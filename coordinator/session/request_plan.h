#ifndef ESPALIER_COORDINATOR_SESSION_REQUEST_PLAN_H_
#define ESPALIER_COORDINATOR_SESSION_REQUEST_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/speculation/messages.h"
#include "coordinator/merge/merge_policy.h"
#include "coordinator/session/request.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

// Values of fields that a request leaves unset.
struct RequestDefaults {
  int64_t max_tokens = 256;
  std::optional<int64_t> max_nodes;  // unset: the policy's default
  int64_t max_depth = 8;
};

// The verifier, drafters and policies that requests can use now.
struct RequestScope {
  VerifierInfo verifier;
  std::vector<std::string> drafters;
  const std::map<std::string, std::unique_ptr<MergePolicy>>* policies = nullptr;
  RequestDefaults defaults;
};

// A valid request with all choices made.
struct RequestPlan {
  SessionParams session = {};
  DraftBudget budget = {};              // max_nodes 0: plain decoding
  bool adaptive = false;                // fewer nodes if not all pay
  std::vector<int> drafters = {};       // indices into RequestScope::drafters
  std::string strategy = {};            // resolved; or kNoStrategy
  const MergePolicy* policy = nullptr;  // null for plain decoding
  std::string rule;
  std::string request_id = {};
  std::string tenant = {};  // GenerationRequest::tenant
  // SessionParams::resumed of each output; empty: nothing is resumed.
  std::vector<ResumedOutput> resumed = {};
  uint64_t origin = 0;  // OutputPiece::origin
  ModelIdentity model;
  TargetShape target;
  std::vector<std::string> warnings =
      {};  // parts of the request that will not be followed
  // Is true if the rule reads the distributions that trees are sampled from.
  bool reads_draft_distributions = false;
  int64_t priority = 0;
};

// Checks that a prompt of `length` tokens, the API's `field`, fits the context
// with a token to follow. A FieldError (request_errors.h).
absl::Status CheckFitsContext(absl::string_view field, int64_t length,
                              int64_t max_context);

// Errors are FieldErrors; FAILED_PRECONDITION: an answer of
// another origin is to be resumed.
absl::StatusOr<RequestPlan> PlanRequest(GenerationRequest request,
                                        const RequestScope& scope);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_SESSION_REQUEST_PLAN_H_
