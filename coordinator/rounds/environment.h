#ifndef ESPALIER_COORDINATOR_ROUNDS_ENVIRONMENT_H_
#define ESPALIER_COORDINATOR_ROUNDS_ENVIRONMENT_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/speculation/messages.h"
#include "coordinator/control/speculation_record.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/peers/drafter_peer.h"
#include "coordinator/peers/feature_budget.h"
#include "coordinator/peers/verifier_link.h"
#include "coordinator/rounds/retry_advice.h"
#include "coordinator/rounds/round_journal.h"
#include "coordinator/session/request_plan.h"

namespace espalier::coordinator {

// Holds what all outputs of a coordinator share. Constant; what it points to is
// borrowed and outlives the outputs.
struct Environment {
  Executor* executor = nullptr;
  const VerifierPeer* verifier = nullptr;
  // They see all rounds.
  SpeculationRecord* record = nullptr;
  FeatureBudget* feature_budget = nullptr;
  RetryAdvice* retry_advice = nullptr;  // if the verifier has no room
  CoordinatorMetrics* metrics = nullptr;
  RoundJournal* journal = nullptr;
  // See Coordinator::Options.
  absl::Duration draft_timeout;
  bool draft_ahead = false;
  bool log_requests = false;
  absl::Duration pace = absl::ZeroDuration();
  absl::Duration retry_after = absl::Seconds(1);
};

// Holds what is of one output of an admitted request.
struct OutputPlan {
  SequenceId sequence = {};
  int64_t number = 0;  // in the request
  absl::Time arrival = {};
  absl::Time deadline = {};
  RequestPlan plan = {};
  TenantShare share = {};                   // of the verifier's K/V pool
  std::vector<DrafterPeer*> drafters = {};  // of the plan, in its order
  bool explores = false;  // if adaptive: asks all drafters, to learn
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_ENVIRONMENT_H_
