// The coordinator's metrics. Handles are made at start, or at the first request
// of their kind, never in a round.
#ifndef ESPALIER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
#define ESPALIER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/obs/metrics.h"
#include "coordinator/metrics/enum_counters.h"
#include "coordinator/metrics/metrics_snapshot.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// The outcome of a request to a drafter.
enum class DraftOutcome {
  kUsed,       // its tree went into the merge
  kEmpty,      // answered in time without a proposal
  kLate,       // answered after its round went on without it
  kStale,      // its copy of the sequence was out of step
  kMalformed,  // invalid; not asked again in this session
  kTimeout,    // the round waited, and no answer came
  kPartial,    // no answer came in time; the partial tree was used
  kError,      // the call failed
  kSkipped,    // not asked: an old request is still unanswered
};

// The outcome of a tree that was drafted ahead of its round.
enum class LookaheadOutcome {
  kHit,     // the tree of this round
  kMiss,    // the text took another path
  kWasted,  // not there in time
};

// Why a step was plain decoding although speculation was requested.
enum class DegradedReason { kNoDrafter, kAllLate, kMalformed };

enum class RejectReason {
  kInvalid,
  kDuplicate,
  kQueueFull,
  kKvFull,
  kDraining,
  kVerifierDown,
  kDeadline,
  kQuota,  // of a tenant
};

// By drafter.
struct DrafterMetrics {
  prometheus::Counter& proposed_tokens;
  prometheus::Counter& accepted_tokens;
  prometheus::Counter& uniquely_accepted_tokens;
  prometheus::Counter& asked_rounds;  // rounds that asked it
  prometheus::Counter& feature_bytes;
  prometheus::Counter& untrusted_distributions;
  prometheus::Histogram& rtt_seconds;
  prometheus::Histogram& wire_seconds;  // rtt_seconds minus drafting
  prometheus::Gauge& up;
  prometheus::Gauge& circuit_state;
  prometheus::Histogram& accepted_length;  // of its tree, verified or not
  prometheus::Gauge& role;                 // a DrafterRole
  prometheus::Gauge& weight;
  EnumCounters<DraftOutcome> requests;
  EnumCounters<LookaheadOutcome> ahead;

  void Count(DraftOutcome outcome) const { requests.Increment(outcome); }
  void Count(LookaheadOutcome outcome) const { ahead.Increment(outcome); }
};

// By strategy and rule.
struct SpecMetrics {
  prometheus::Counter& num_drafts;
  prometheus::Counter& num_max_nodes;
  prometheus::Counter& num_draft_tokens;
  prometheus::Counter& num_accepted_tokens;
  prometheus::Counter& num_emitted_tokens;
  std::vector<prometheus::Counter*> accepted_per_position;  // deeper: uncounted
  prometheus::Histogram& accepted_tokens_per_step;
  prometheus::Histogram& tree_nodes;

  struct Step {
    int64_t max_nodes = 0;  // budget of the tree
    int64_t num_nodes = 0;  // of the tree; both exclude the root
    int64_t num_accepted = 0;
    int64_t num_emitted = 0;
  };
  void Count(const Step& step) const;
};

// Seconds of each stage of a step.
struct StageMetrics {
  prometheus::Histogram& draft_wait;
  prometheus::Histogram& merge;
  prometheus::Histogram& verify;  // inside the verifier
  prometheus::Histogram& wire;    // round trip to it minus `verify`
  prometheus::Histogram& commit;
  prometheus::Histogram& emit;
};

// Returns the reason's name in metrics and in the log.
const char* LabelOf(FinishReason reason);

// Counts the target's features that sessions hold for their drafters.
struct FeatureMetrics {
  prometheus::Gauge& held_bytes;
  prometheus::Counter& lost_positions;
};

// By request.
struct RequestMetrics {
  prometheus::Gauge& in_flight;
  prometheus::Gauge& queued;
  prometheus::Gauge& sessions_open;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& cached_tokens;
  prometheus::Counter& generation_tokens;
  prometheus::Counter& near_ties;
  prometheus::Histogram& time_to_first_token;
  prometheus::Histogram& inter_chunk_latency;
  prometheus::Histogram& time_per_output_token;
  prometheus::Histogram& duration;
  prometheus::Histogram& queue_time;
  prometheus::Histogram& prompt_length;      // tokens, of started requests
  prometheus::Histogram& generation_length;  // tokens, of ended requests
};

// Owned by the Coordinator. Thread-safe.
class CoordinatorMetrics {
 public:
  CoordinatorMetrics(prometheus::Registry& registry, std::string model,
                     const std::vector<std::string>& drafters);

  // Looks names up: call it once per request, not per step.
  const SpecMetrics& Spec(const std::string& strategy, const std::string& rule);
  void CountRequest(absl::StatusCode code, FinishReason reason);
  // Seconds that speculation won, compared with plain decoding, in rounds that
  // asked these drafters; below 0: lost. Sets beyond the first kMaxSets share
  // one gauge.
  prometheus::Gauge& Balance(const std::string& drafters);

  void Count(DegradedReason reason) const { degraded_steps_.Increment(reason); }
  void Count(RejectReason reason) const { rejected_.Increment(reason); }
  const DrafterMetrics& drafter(int index) const { return *drafters_[index]; }

  MetricsSnapshot Snapshot() const;

  const StageMetrics stages;
  const RequestMetrics requests;
  const FeatureMetrics features;

 private:
  using Labels = std::map<std::string, std::string>;
  static constexpr size_t kMaxSets = 64;

  std::unique_ptr<DrafterMetrics> MakeDrafter(const std::string& name);
  std::unique_ptr<SpecMetrics> MakeSpec(const std::string& strategy,
                                        const std::string& rule);

  prometheus::Registry& registry_;
  const std::string model_;
  std::vector<std::unique_ptr<DrafterMetrics>> drafters_;
  const EnumCounters<DegradedReason> degraded_steps_;
  const EnumCounters<RejectReason> rejected_;
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<SpecMetrics>>
      spec_ ABSL_GUARDED_BY(mutex_);  // by strategy and rule
  std::map<std::pair<absl::StatusCode, FinishReason>, prometheus::Counter*>
      requests_by_end_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, prometheus::Gauge*> balances_
      ABSL_GUARDED_BY(mutex_);  // by set of drafters
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
