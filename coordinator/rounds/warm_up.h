#ifndef ESPALIER_COORDINATOR_ROUNDS_WARM_UP_H_
#define ESPALIER_COORDINATOR_ROUNDS_WARM_UP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/peers/drafter_peer.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/peers/feature_budget.h"
#include "coordinator/rounds/environment.h"
#include "coordinator/rounds/generation.h"
#include "coordinator/rounds/retry_advice.h"
#include "coordinator/rounds/round_journal.h"
#include "coordinator/session/request.h"
#include "coordinator/session/request_plan.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// Decodes a text while nobody waits, with each drafter alone and then with all,
// so that the first request finds what speculation costs and gains here: the
// pace of plain decoding, times and gains of drafters, and a calibration. Its
// sessions are nobody's requests: they have metrics, a journal and drafters'
// health of their own, and share only the SpeculationRecord. Lives on the
// executor.
class WarmUp {
 public:
  struct Options {
    uint64_t epoch = 0;
    std::vector<TokenId> text;           // that the sessions begin with
    absl::Duration limit;                // of all sessions together
    std::vector<DrafterPeer*> drafters;  // borrowed
    // Plans a request as one of a client.
    std::function<absl::StatusOr<RequestPlan>(GenerationRequest)> plan;
    // Runs once, when the warm-up is over or was stopped; may be in Stop.
    absl::AnyInvocable<void()> on_end;
  };
  // `environment`: the coordinator's, of which the warm-up shares executor,
  // verifier and record.
  WarmUp(const Environment& environment, Options options);
  ~WarmUp();

  // Waits until the verifier and the drafters are known, and begins.
  void Start();
  // Ends it at once. Does nothing if it has ended.
  void Stop();

 private:
  class Sink;
  // One session: text of one kind with some drafters.
  struct Session {
    bool greedy;
    std::vector<int> drafters;  // indices into Options::drafters
  };

  void Await(int attempt);
  bool DraftersAreKnown() const;
  void PlanSessions();
  void Next();
  // Null: the server leaves nothing to decide.
  absl::StatusOr<std::unique_ptr<Generation>> Open(const Session& session);
  void End();

  Options options_;
  prometheus::Registry registry_;
  CoordinatorMetrics metrics_;
  RoundJournal journal_;
  FeatureBudget feature_budget_;
  RetryAdvice retry_advice_;
  const Environment environment_;  // of its own sessions
  std::vector<std::unique_ptr<DrafterPeer>> drafters_;
  std::vector<Session> sessions_;  // the next one is the last
  uint64_t num_opened_ = 0;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::unique_ptr<Generation> running_;
  std::vector<std::unique_ptr<Generation>> finished_;
  bool ended_ = false;
  ExecutorScope scope_;  // last: goes first
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_WARM_UP_H_
