#ifndef ESPALIER_COORDINATOR_COORDINATOR_H_
#define ESPALIER_COORDINATOR_COORDINATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
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
#include "common/base/registry.h"
#include "common/spec/endpoints.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/draft_fanout.h"
#include "coordinator/drafter_duty.h"
#include "coordinator/executor_scope.h"
#include "coordinator/generation.h"
#include "coordinator/merge_policy.h"
#include "coordinator/request.h"
#include "coordinator/request_plan.h"
#include "coordinator/round_journal.h"
#include "coordinator/speculation_record.h"
#include "coordinator/verifier_link.h"

namespace espalier::coordinator {

struct DrafterHandle {
  std::string name;
  DraftEndpoint* endpoint = nullptr;
  // What it says of itself; nullopt: not known yet; null: never. Called on the
  // executor.
  std::function<std::optional<DrafterInfo>()> info = nullptr;
  DrafterRole role = DrafterRole::kActive;  // at first
  // Whether the laws that it claims are believed, by rules that read them.
  bool trusted = false;
};

// Admits requests and decodes them, several at a time. All state lives on the
// executor; the public calls may come from any thread.
class Coordinator {
 public:
  struct Options {
    // Peers and plumbing; borrowed, must outlive the coordinator. Peers may
    // answer after it is gone: the executor must outlive their answers.
    Executor* executor = nullptr;
    std::vector<DrafterHandle> drafters;  // at most 64, names differ
    VerifyEndpoint* verifier = nullptr;
    // What the connected verifier says of itself; nullopt: not connected.
    // Called on the executor.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    const Registry<MergePolicy>* policies = nullptr;
    prometheus::Registry* metrics = nullptr;

    uint64_t epoch = 0;  // drawn at random by the caller
    std::string model;   // label of the metrics
    int64_t max_sessions = 8;
    int64_t max_queued = 64;
    RequestDefaults defaults;
    absl::Duration draft_timeout = absl::Milliseconds(50);
    bool draft_ahead = true;           // where drafters stand idle otherwise
    int drafter_timeouts_to_open = 3;  // see DrafterHealth
    // What a session keeps at most of features, see FeatureLog. Twice as much
    // for a moment, when a drafter takes all of it.
    int64_t max_feature_bytes = int64_t{64} << 20;
    VerifierRetry verifier_retry;
    absl::Duration max_request_duration = absl::Minutes(10);
    absl::Duration retry_after = absl::Seconds(1);  // advice when full
  };
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(Options options);

  // REQUIRES: no request is live (see Shutdown), or the executor has stopped.
  ~Coordinator();

  // Names one call of Start; never reused.
  using Ticket = uint64_t;

  // The sink hears of everything, a refusal included:
  //   INVALID_ARGUMENT with the field, ALREADY_EXISTS: request_id is live,
  //   RESOURCE_EXHAUSTED with a delay: full, UNAVAILABLE: draining, or the
  //   verifier is not connected.
  Ticket Start(GenerationRequest request, std::unique_ptr<TokenSink> sink);

  // Ends a request as CANCELLED. Does nothing if it has finished.
  void Cancel(Ticket ticket);
  // The same by name. `done` hears on the executor whether it was live.
  void Abort(std::string request_id,
             absl::AnyInvocable<void(bool was_live) &&> done);

  // Refuses new requests; `idle` runs when the last of the others is finished.
  void Drain(absl::AnyInvocable<void() &&> idle);
  // Drains, and ends what is live as UNAVAILABLE. No peer is called after
  // `done`, and the coordinator may be destroyed.
  void Shutdown(absl::AnyInvocable<void() &&> done);

  struct LoadInfo {
    int64_t running = 0;
    int64_t queued = 0;
    int64_t max_sessions = 0;
    int64_t max_queued = 0;
  };
  LoadInfo Load() const;

  // The latest rounds, for people to look at. Thread-safe.
  const RoundJournal& journal() const { return journal_; }

  struct DrafterStatus {
    std::string name;
    bool up = false;
    bool circuit_open = false;
    int64_t proposed_tokens = 0;
    int64_t accepted_tokens = 0;
    int64_t uniquely_accepted_tokens = 0;
    DrafterDuty duty;
  };
  std::vector<DrafterStatus> Drafters() const;

  // What is unset stays.
  struct DutyChange {
    std::string drafter;
    std::optional<DrafterRole> role;
    std::optional<double> weight;
  };
  // From the next round of every session on. `done` hears on the executor:
  // NOT_FOUND, INVALID_ARGUMENT with the field, or the new duty.
  void SetDuty(DutyChange change, Done<DrafterDuty> done);

 private:
  using Policies = std::map<std::string, std::unique_ptr<MergePolicy>>;

  struct Live {
    std::string request_id;
    std::unique_ptr<Generation> generation;
  };
  struct Arrival {
    Ticket ticket;
    absl::Time time;
    GenerationRequest request;
    std::unique_ptr<TokenSink> sink;
  };

  Coordinator(Options options, Policies policies);

  void Admit(Arrival arrival);
  absl::StatusOr<RequestPlan> Plan(GenerationRequest request);
  absl::Status CheckRoom(const std::string& request_id);
  void Refuse(const absl::Status& status, const Arrival& arrival);
  void StartNext();
  void FinishLive(Ticket ticket, const absl::Status& status,
                  FinishReason reason);
  void OnFinished(Ticket ticket);
  void Settle();
  void TellIfIdle();
  void ShowLoad();
  absl::StatusOr<DrafterDuty> Change(const DutyChange& change);

  const Options options_;
  const Policies policies_;
  CoordinatorMetrics metrics_;
  RoundJournal journal_;
  const VerifierPeer verifier_;
  std::atomic<Ticket> next_ticket_ = 1;

  // On the executor.
  std::vector<std::unique_ptr<DrafterPeer>> drafters_;
  SpeculationRecord record_;
  absl::flat_hash_map<Ticket, Live> live_;
  absl::flat_hash_map<std::string, Ticket> tickets_;  // by request_id
  std::deque<Ticket> queue_;
  int64_t num_running_ = 0;
  std::vector<std::unique_ptr<Generation>> finished_;  // until Settle
  bool settling_ = false;                              // Settle is posted
  bool draining_ = false;
  std::vector<absl::AnyInvocable<void() &&>> when_idle_;
  ExecutorScope scope_;  // last: goes first
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_H_
