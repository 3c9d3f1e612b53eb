#ifndef ESPALIER_COORDINATOR_ROUNDS_COORDINATOR_H_
#define ESPALIER_COORDINATOR_ROUNDS_COORDINATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/notification.h"
#include "common/base/registry.h"
#include "common/speculation/endpoints.h"
#include "coordinator/control/speculation_record.h"
#include "coordinator/merge/merge_policy.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/peers/draft_fanout.h"
#include "coordinator/peers/drafter_settings.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/peers/feature_budget.h"
#include "coordinator/peers/verifier_link.h"
#include "coordinator/rounds/environment.h"
#include "coordinator/rounds/generation.h"
#include "coordinator/rounds/request_trace.h"
#include "coordinator/rounds/retry_advice.h"
#include "coordinator/rounds/round_journal.h"
#include "coordinator/rounds/warm_up.h"
#include "coordinator/session/request.h"
#include "coordinator/session/request_plan.h"
#include "coordinator/tenants/fair_queue.h"
#include "coordinator/tenants/tenant_table.h"

namespace espalier::coordinator {

struct DrafterHandle {
  std::string name;
  DraftEndpoint* endpoint = nullptr;
  // The drafter's self-description. nullopt: not known yet. A null function:
  // never known. Called on any thread.
  std::function<std::optional<DrafterInfo>()> info = nullptr;
  DrafterRole role = DrafterRole::kActive;  // the initial role
  // Is true if rules that read draft distributions may believe those that it
  // claims.
  bool trusted = false;
};

// Admits requests and decodes them, several at a time. All state lives on the
// executor; the public calls may come from any thread. Defined in
// coordinator.cc and coordinator_drafters.cc.
class Coordinator {
 public:
  struct Options {
    // Peers and plumbing; borrowed, must outlive the coordinator. Peers may
    // answer after it is gone: the executor must outlive their answers.
    Executor* executor = nullptr;
    std::vector<DrafterHandle> drafters;  // at most 64, names differ
    VerifyEndpoint* verifier = nullptr;
    // Description of the connected verifier; nullopt: not connected. Called on
    // any thread.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    const Registry<MergePolicy>* policies = nullptr;
    prometheus::Registry* metrics = nullptr;

    uint64_t epoch = 0;  // sampled at random by the caller
    std::string model;   // label of the metrics
    int64_t max_sessions = 8;
    int64_t max_queued = 64;
    RequestDefaults defaults;
    absl::Duration draft_timeout = absl::Milliseconds(50);
    bool draft_ahead = true;    // where drafters would be idle
    bool log_requests = false;  // those without a traceparent, too
    // Between the tokens of an output (see Pacer); zero: as they come.
    absl::Duration pace = absl::ZeroDuration();
    Tracing tracing;  // its sink must outlive the coordinator
    // For WarmUp; empty: none.
    std::vector<TokenId> warm_up_text;
    absl::Duration warm_up_limit = absl::Seconds(2);
    int drafter_timeouts_to_open = 3;  // see DrafterHealth
    FeatureBudget::Limits feature_limits;
    VerifierRetry verifier_retry;
    absl::Duration max_request_duration = absl::Minutes(10);
    // Advice to clients while the verifier is away; when all places are taken,
    // until a request has ended (RetryAdvice).
    absl::Duration retry_after = absl::Seconds(1);
  };
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(Options options);

  // REQUIRES: no request is live (see Shutdown), or the executor has stopped.
  ~Coordinator();

  // OK, or the error of Start that every request of the tenant would get now,
  // whatever it asks for, if `num_coming` requests of it are started first; or
  // RESOURCE_EXHAUSTED with a delay for a quota, which counts the request.
  // Called before anything is spent on a request. Thread-safe.
  absl::Status CheckOpen(const std::string& tenant, int64_t num_coming);

  // Who shares the places, and how. Thread-safe.
  TenantTable& tenants() { return tenants_; }
  // Counts a request that failed for another reason before Start, so that the
  // metrics have all requests. Thread-safe.
  void CountUnstarted(const absl::Status& status);

  // Names one call of Start; never reused.
  using Ticket = uint64_t;

  // Starts all outputs of a request that are not finished: the first one at
  // once, or when there is a place, the others when the first has computed the
  // prompt. The sink is told everything, also a refusal, once for each output:
  //   INVALID_ARGUMENT with the field
  //   ALREADY_EXISTS: request_id is live
  //   RESOURCE_EXHAUSTED with a delay: full
  //   UNAVAILABLE: draining, or the verifier is not connected
  //   FAILED_PRECONDITION: see PlanRequest
  // REQUIRES: request.num_outputs is in 1 .. kMaxOutputs, and there are none or
  // as many request.resumed.
  Ticket Start(GenerationRequest request, std::shared_ptr<TokenSink> sink);

  // Ends a request as CANCELLED. Does nothing if it has finished.
  void Cancel(Ticket ticket);
  // Cancels by name. `done` is told on the executor whether the request was
  // live.
  void Abort(std::string request_id,
             absl::AnyInvocable<void(bool was_live) &&> done);

  // Refuses new requests. `idle` runs when the last of the others has finished.
  void Drain(absl::AnyInvocable<void() &&> idle);
  // Drains, and ends live requests as UNAVAILABLE. After `done` no peer is
  // called, and the coordinator may be destroyed.
  void Shutdown(absl::AnyInvocable<void() &&> done);

  struct LoadInfo {
    int64_t running = 0;
    int64_t queued = 0;
    int64_t max_sessions = 0;
    int64_t max_queued = 0;
  };
  LoadInfo Load() const;

  // Waits until the warm-up is over or was cut short by a request. False if the
  // deadline passed first. Thread-safe.
  bool AwaitWarm(absl::Time deadline) const {
    return warm_.WaitUntil(deadline);
  }

  // For the status page. Thread-safe.
  MetricsSnapshot Counts() const { return metrics_.Snapshot(); }
  // The latest rounds, for the status page. Thread-safe.
  const RoundJournal& journal() const { return journal_; }

  // How the target's features reach a drafter.
  enum class FeaturePath {
    kNone,  // it wants none, or is not known yet
    kBytes,
    kDeviceRing,  // FeatureRingInfo
  };
  struct DrafterStatus {
    std::string name;
    bool up = false;
    bool circuit_open = false;
    int64_t proposed_tokens = 0;
    int64_t accepted_tokens = 0;
    int64_t uniquely_accepted_tokens = 0;
    DrafterSettings settings;
    FeaturePath features = FeaturePath::kNone;
  };
  std::vector<DrafterStatus> Drafters() const;  // thread-safe, as Load

  // Unset fields stay as they are.
  struct SettingsChange {
    std::string drafter;
    std::optional<DrafterRole> role = {};
    std::optional<double> weight = {};
  };
  // Takes effect with the next round of every session. `done` gets, on the
  // executor, NOT_FOUND, INVALID_ARGUMENT with the field, or the new settings.
  void SetSettings(SettingsChange change, Done<DrafterSettings> done);

 private:
  static FeaturePath PathOf(const DrafterPeer& drafter,
                            const FeatureRingInfo& ring);

  using Policies = std::map<std::string, std::unique_ptr<MergePolicy>>;

  // A request with outputs that are not finished. Output i has the ticket
  // of the request plus i.
  struct Request {
    std::string id;
    int64_t num_outputs = 0;
    int64_t num_live = 0;
    Ticket first = 0;        // of its outputs that run
    bool prefilled = false;  // the outputs after the first may run
  };
  struct Live {
    Ticket request = 0;
    std::string tenant;      // as the table names it
    FairQueue::Place place;  // in the queue
    std::unique_ptr<Generation> generation;
    absl::Time began = {};  // if it runs
    double charged = 0;     // to its tenant for the place
  };
  struct Arrival {
    Ticket ticket;
    absl::Time time;
    GenerationRequest request;
    std::shared_ptr<TokenSink> sink;
  };

  Coordinator(Options options, Policies policies);

  void Admit(Arrival arrival);
  absl::StatusOr<RequestPlan> Plan(GenerationRequest request);
  struct Room {
    int64_t places = 0;  // for outputs that run and wait
    int64_t taken = 0;
  };
  Room RoomFor(const std::string& tenant, const LoadInfo& load) const;
  absl::Status CheckRoom(const std::string& tenant, const LoadInfo& load,
                         int64_t num_outputs);
  absl::Status CheckVerifier(const std::optional<VerifierInfo>& verifier);
  void Refuse(const absl::Status& status, const Arrival& arrival);
  void CountEnd(absl::StatusCode code);  // thread-safe
  void Open(Arrival arrival, RequestPlan plan);
  void OnPrefilled(Ticket request);
  void StartNext();
  // Ends all live outputs of a request.
  void FinishRequest(Ticket request, const absl::Status& status,
                     FinishReason reason);
  void OnFinished(Ticket ticket, const absl::Status& status);
  void Settle();
  void TellIfIdle();
  void ChargeUse(const Live& live);
  void ShowLoad();
  void StartWarmUp();
  absl::StatusOr<DrafterSettings> Change(const SettingsChange& change);

  const Options options_;
  const Policies policies_;
  CoordinatorMetrics metrics_;
  RoundJournal journal_;
  const VerifierPeer verifier_;
  RetryAdvice retry_advice_;
  std::atomic<Ticket> next_ticket_ = 1;
  std::atomic<bool> draining_ = false;  // written on the executor
  Notification warm_;                   // there is no warm-up any more

  // Constant after construction.
  std::vector<std::unique_ptr<DrafterPeer>> drafters_;
  // Set on the executor, read by any thread.
  std::atomic<int64_t> num_running_ = 0;
  std::atomic<int64_t> num_queued_ = 0;

  // On the executor.
  TenantTable tenants_;
  RequestTracer tracer_;
  SpeculationRecord record_;
  FeatureBudget feature_budget_;            // of live_
  const Environment environment_;           // of all that is above
  absl::flat_hash_map<Ticket, Live> live_;  // outputs
  absl::flat_hash_map<Ticket, Request> requests_;
  absl::flat_hash_map<std::string, Ticket> tickets_;  // by request_id
  // In a tenant's line by arrival, later by a second for each unit of priority
  // (see GenerateRequest.priority), so that no request waits for ever.
  FairQueue queue_;
  std::vector<std::unique_ptr<Generation>> finished_;  // until Settle
  bool settling_ = false;                              // Settle is posted
  std::vector<absl::AnyInvocable<void() &&>> when_idle_;
  std::unique_ptr<WarmUp> warm_up_;  // null: off
  ExecutorScope scope_;              // last: goes first
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_COORDINATOR_H_
