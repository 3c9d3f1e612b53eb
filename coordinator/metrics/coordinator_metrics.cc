#include "coordinator/metrics/coordinator_metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace espalier::coordinator {
namespace {

// Positions of accepted tokens with a counter of their own.
constexpr int kNumPositions = 16;

constexpr EnumCounters<DraftOutcome>::Label kOutcomes[] = {
    {DraftOutcome::kUsed, "used"},
    {DraftOutcome::kEmpty, "empty"},
    {DraftOutcome::kLate, "late"},
    {DraftOutcome::kStale, "stale"},
    {DraftOutcome::kMalformed, "malformed"},
    {DraftOutcome::kTimeout, "timeout"},
    {DraftOutcome::kPartial, "partial"},
    {DraftOutcome::kError, "error"},
    {DraftOutcome::kSkipped, "skipped"}};
constexpr EnumCounters<LookaheadOutcome>::Label kLookaheadOutcomes[] = {
    {LookaheadOutcome::kHit, "hit"},
    {LookaheadOutcome::kMiss, "miss"},
    {LookaheadOutcome::kWasted, "wasted"}};
constexpr EnumCounters<DegradedReason>::Label kDegradedReasons[] = {
    {DegradedReason::kNoDrafter, "no_drafter"},
    {DegradedReason::kAllLate, "all_late"},
    {DegradedReason::kMalformed, "malformed"}};
constexpr EnumCounters<RejectReason>::Label kRejectReasons[] = {
    {RejectReason::kInvalid, "invalid"},
    {RejectReason::kDuplicate, "duplicate"},
    {RejectReason::kQueueFull, "queue_full"},
    {RejectReason::kKvFull, "kv_full"},
    {RejectReason::kDraining, "draining"},
    {RejectReason::kVerifierDown, "verifier_down"},
    {RejectReason::kDeadline, "deadline"},
    {RejectReason::kQuota, "quota"}};

constexpr char kDraftedTokens[] =
    "Tree nodes by drafter; a merged node counts for each of its drafters, so "
    "these do not sum to the total";

prometheus::Histogram::BucketBoundaries FirstTokenSecondsBuckets() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,
          .75,  1,    2.5, 5,   7.5, 10,  20,  40, 80};
}

prometheus::Histogram::BucketBoundaries TokenSecondsBuckets() {
  return {.001, .002, .004, .006, .008, .01, .015, .02, .03, .04,
          .06,  .08,  .1,   .2,   .4,   .8,  1,    2,   5};
}

prometheus::Histogram::BucketBoundaries TokensBuckets() {
  return {1,   2,    5,    10,   20,    50,    100,   200,
          500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
}

prometheus::Histogram& AddStage(prometheus::Registry& registry,
                                const char* stage) {
  return AddHistogram(registry,
                      {.name = "espalier_step_stage_seconds",
                       .help = "Time of a decoding step by stage",
                       .labels = {{"stage", stage}}},
                      StageSecondsBuckets());
}

StageMetrics MakeStages(prometheus::Registry& registry) {
  return {.draft_wait = AddStage(registry, "draft_wait"),
          .merge = AddStage(registry, "merge"),
          .verify = AddStage(registry, "verify"),
          .wire = AddStage(registry, "wire"),
          .commit = AddStage(registry, "commit"),
          .emit = AddStage(registry, "emit")};
}

FeatureMetrics MakeFeatures(prometheus::Registry& registry) {
  return {.held_bytes = AddGauge(
              registry,
              {.name = "espalier_coordinator_feature_bytes",
               .help = "Hidden states of the target that sessions hold for "
                       "their drafters"}),
          .lost_positions = AddCounter(
              registry, {.name = "espalier_features_lost_positions_total",
                         .help = "Positions whose hidden states were dropped "
                                 "before every drafter had them"})};
}

RequestMetrics MakeRequests(prometheus::Registry& registry,
                            const std::string& model) {
  const std::map<std::string, std::string> labels = {{"model", model}};
  auto counter = [&](const char* name, const char* help) -> auto& {
    return AddCounter(registry, {.name = name, .help = help, .labels = labels});
  };
  auto gauge = [&](const char* name, const char* help) -> auto& {
    return AddGauge(registry, {.name = name, .help = help, .labels = labels});
  };
  using Buckets = prometheus::Histogram::BucketBoundaries;
  auto seconds = [&](const char* what, const char* help,
                     const Buckets& buckets) -> auto& {
    return AddHistogram(registry,
                        {.name = absl::StrCat("espalier_", what, "_seconds"),
                         .help = help,
                         .labels = labels},
                        buckets);
  };
  auto length = [&](const char* what, const char* help) -> auto& {
    return AddHistogram(
        registry,
        {.name = absl::StrCat("espalier_request_", what, "_tokens"),
         .help = help,
         .labels = labels},
        TokensBuckets());
  };
  return {
      .in_flight = gauge("espalier_requests_in_flight",
                         "Requests that are being decoded"),
      .queued = gauge("espalier_requests_queued", "Requests that wait"),
      .sessions_open =
          AddGauge(registry, {.name = "espalier_sessions_open",
                              .help = "Decoding sessions open",
                              .labels = {{"role", "coordinator"}}}),
      .prompt_tokens = counter("espalier_prompt_tokens_total",
                               "Tokens of the prompts of started requests"),
      .cached_tokens = counter("espalier_prompt_tokens_cached_total",
                               "Of them, those that the verifier had cached"),
      .generation_tokens = counter("espalier_generation_tokens_total",
                                   "Tokens emitted to clients"),
      .near_ties = counter("espalier_near_ties_total",
                           "Emitted positions with a tiny top-2 margin"),
      .time_to_first_token =
          seconds("time_to_first_token", "From arrival to the first token",
                  FirstTokenSecondsBuckets()),
      .inter_chunk_latency = seconds("inter_chunk_latency",
                                     "Between the tokens of successive steps",
                                     TokenSecondsBuckets()),
      .time_per_output_token =
          seconds("time_per_output_token",
                  "Mean over the tokens of a request after its first step",
                  TokenSecondsBuckets()),
      .duration =
          seconds("request_duration", "From arrival to the end of the answer",
                  RequestSecondsBuckets()),
      .queue_time = seconds("queue_time", "From arrival to the first step",
                            RequestSecondsBuckets()),
      .prompt_length = length("prompt", "Tokens of a started prompt"),
      .generation_length =
          length("generation", "Tokens emitted for a request")};
}

MetricsSnapshot::ByLabel StageSeconds(const StageMetrics& stages) {
  const auto sum = [](const prometheus::Histogram& stage) {
    return stage.Collect().histogram.sample_sum;
  };
  return {{"draft_wait", sum(stages.draft_wait)}, {"merge", sum(stages.merge)},
          {"verify", sum(stages.verify)},         {"wire", sum(stages.wire)},
          {"commit", sum(stages.commit)},         {"emit", sum(stages.emit)}};
}

prometheus::Histogram::BucketBoundaries AcceptedBuckets() {
  prometheus::Histogram::BucketBoundaries buckets;
  for (int i = 0; i <= 16; ++i) buckets.push_back(i);
  return buckets;
}

}  // namespace

const char* LabelOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kUnspecified:
      return "unspecified";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "unspecified";
}

void SpecMetrics::Count(const Step& step) const {
  num_drafts.Increment();
  num_max_nodes.Increment(static_cast<double>(step.max_nodes));
  num_draft_tokens.Increment(static_cast<double>(step.num_nodes));
  num_accepted_tokens.Increment(static_cast<double>(step.num_accepted));
  num_emitted_tokens.Increment(static_cast<double>(step.num_emitted));
  const int64_t num_positions =
      static_cast<int64_t>(accepted_per_position.size());
  for (int64_t i = 0; i < std::min(step.num_accepted, num_positions); ++i) {
    accepted_per_position[i]->Increment();
  }
  accepted_tokens_per_step.Observe(static_cast<double>(step.num_accepted));
  tree_nodes.Observe(static_cast<double>(step.num_nodes));
}

CoordinatorMetrics::CoordinatorMetrics(prometheus::Registry& registry,
                                       std::string model,
                                       const std::vector<std::string>& drafters)
    : stages(MakeStages(registry)),
      requests(MakeRequests(registry, model)),
      features(MakeFeatures(registry)),
      registry_(registry),
      model_(std::move(model)),
      degraded_steps_(kDegradedReasons,
                      [&](const char* reason) -> prometheus::Counter& {
                        Labels labels = {{"model", model_}};
                        labels["reason"] = reason;
                        return AddCounter(
                            registry_,
                            {.name = "espalier_degraded_steps_total",
                             .help = "Steps that lacked a tree although one "
                                     "was wanted",
                             .labels = labels});
                      }),
      rejected_(
          kRejectReasons, [&](const char* reason) -> prometheus::Counter& {
            return AddCounter(
                registry_, {.name = "espalier_requests_rejected_total",
                            .help = "Requests refused before their first token",
                            .labels = {{"reason", reason}}});
          }) {
  for (const std::string& name : drafters) {
    drafters_.push_back(MakeDrafter(name));
    Balance(name);  // so that it is there before the first round
  }
}

std::unique_ptr<DrafterMetrics> CoordinatorMetrics::MakeDrafter(
    const std::string& name) {
  const auto counter = [&](const char* metric, const char* help,
                           Labels labels = {}) -> auto& {
    labels["drafter"] = name;
    return AddCounter(registry_,
                      {.name = metric, .help = help, .labels = labels});
  };
  const auto gauge = [&](const char* metric, const char* help) -> auto& {
    return AddGauge(
        registry_,
        {.name = metric, .help = help, .labels = {{"drafter", name}}});
  };
  const auto histogram = [&](const char* metric, const char* help,
                             const auto& buckets) -> auto& {
    return AddHistogram(
        registry_,
        {.name = metric, .help = help, .labels = {{"drafter", name}}}, buckets);
  };
  const auto request = [&](const char* outcome) -> auto& {
    return counter("espalier_drafter_requests_total",
                   "Requests to drafters; one that timed out counts again as "
                   "late if its answer comes",
                   {{"outcome", outcome}});
  };
  const auto ahead = [&](const char* result) -> auto& {
    return counter("espalier_lookahead_total",
                   "Trees drafted for a round before it began",
                   {{"result", result}});
  };
  return std::make_unique<DrafterMetrics>(DrafterMetrics{
      .proposed_tokens = counter("espalier_drafter_proposed_tokens_total",
                                 kDraftedTokens, {{"model", model_}}),
      .accepted_tokens = counter("espalier_drafter_accepted_tokens_total",
                                 kDraftedTokens, {{"model", model_}}),
      .uniquely_accepted_tokens =
          counter("espalier_drafter_uniquely_accepted_tokens_total",
                  kDraftedTokens, {{"model", model_}}),
      .asked_rounds = counter("espalier_drafter_asked_rounds_total",
                              "Rounds that asked the drafter, or had its tree "
                              "from before they began"),
      .feature_bytes = counter("espalier_drafter_feature_bytes_total",
                               "Hidden states of the target sent to drafters"),
      .untrusted_distributions =
          counter("espalier_drafter_distributions_ignored_total",
                  "Trees whose distributions were dropped, so that no rule "
                  "could read them",
                  {{"reason", "untrusted"}}),
      .rtt_seconds = histogram("espalier_drafter_rtt_seconds",
                               "From request to answer", StageSecondsBuckets()),
      .wire_seconds = histogram(
          "espalier_drafter_wire_seconds",
          "From request to answer, without what the drafter says it computed",
          StageSecondsBuckets()),
      .up = gauge("espalier_drafter_up", "1: its last request was answered"),
      .circuit_state = gauge("espalier_drafter_circuit_state",
                             "0: closed; 2: open, nobody waits for it"),
      .accepted_length =
          histogram("espalier_drafter_accepted_length",
                    "Tokens in a row that a tree of the drafter predicted, "
                    "whether it was verified or not; shadows too",
                    AcceptedBuckets()),
      .role = gauge("espalier_drafter_role", "0: off; 1: shadow; 2: active"),
      .weight = gauge("espalier_drafter_weight",
                      "Of its tokens, as the operator has set it"),
      .requests = {kOutcomes, request},
      .ahead = {kLookaheadOutcomes, ahead}});
}

std::unique_ptr<SpecMetrics> CoordinatorMetrics::MakeSpec(
    const std::string& strategy, const std::string& rule) {
  Labels by_strategy = {{"model", model_}};
  by_strategy["strategy"] = strategy;
  Labels by_rule = by_strategy;
  by_rule["rule"] = rule;
  auto counter = [&](const char* stem,
                     const char* help) -> prometheus::Counter& {
    return AddCounter(registry_, {.name = absl::StrCat("espalier_spec_decode_",
                                                       stem, "_total"),
                                  .help = help,
                                  .labels = by_rule});
  };
  std::vector<prometheus::Counter*> positions;
  for (int i = 0; i < kNumPositions; ++i) {
    Labels labels = by_strategy;
    labels["position"] = absl::StrCat(i);
    positions.push_back(&AddCounter(
        registry_,
        {.name = "espalier_spec_decode_num_accepted_tokens_per_pos_total",
         .help = "Accepted draft tokens by depth in the tree",
         .labels = labels}));
  }
  return std::make_unique<SpecMetrics>(SpecMetrics{
      .num_drafts = counter("num_drafts", "Verifications"),
      .num_max_nodes = counter(
          "num_max_nodes", "Tree nodes allowed, root excluded, used or not"),
      .num_draft_tokens =
          counter("num_draft_tokens", "Verified tree nodes, root excluded"),
      .num_accepted_tokens = counter("num_accepted_tokens",
                                     "Accepted draft tokens, bonus excluded"),
      .num_emitted_tokens =
          counter("num_emitted_tokens", "Emitted tokens, bonus included"),
      .accepted_per_position = std::move(positions),
      .accepted_tokens_per_step =
          AddHistogram(registry_,
                       {.name = "espalier_spec_decode_accepted_tokens_per_step",
                        .help = "Accepted draft tokens of a verification",
                        .labels = by_strategy},
                       AcceptedBuckets()),
      .tree_nodes =
          AddHistogram(registry_,
                       {.name = "espalier_spec_decode_tree_nodes",
                        .help = "Nodes of a verified tree, root excluded",
                        .labels = by_strategy},
                       {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256})});
}

const SpecMetrics& CoordinatorMetrics::Spec(const std::string& strategy,
                                            const std::string& rule) {
  MutexLock lock(&mutex_);
  std::unique_ptr<SpecMetrics>& spec = spec_[{strategy, rule}];
  if (spec == nullptr) spec = MakeSpec(strategy, rule);
  return *spec;
}

prometheus::Gauge& CoordinatorMetrics::Balance(const std::string& drafters) {
  MutexLock lock(&mutex_);
  const bool is_new =
      !balances_.contains(drafters) && balances_.size() < kMaxSets;
  const std::string set =
      is_new || balances_.contains(drafters) ? drafters : "others";
  prometheus::Gauge*& gauge = balances_[set];
  if (gauge == nullptr) {
    Labels labels = {{"model", model_}};
    labels["drafters"] = set;
    gauge = &AddGauge(
        registry_,
        {.name = "espalier_speculation_balance_seconds",
         .help = "Time that speculation won since the start, compared with "
                 "plain decoding, in rounds that asked these drafters; it "
                 "falls where time is lost",
         .labels = labels});
  }
  return *gauge;
}

void CoordinatorMetrics::CountRequest(absl::StatusCode code,
                                      FinishReason reason) {
  MutexLock lock(&mutex_);
  prometheus::Counter*& counter = requests_by_end_[{code, reason}];
  if (counter == nullptr) {
    Labels labels = {{"model", model_}};
    labels["code"] = absl::StatusCodeToString(code);
    labels["finish_reason"] = LabelOf(reason);
    counter = &AddCounter(registry_, {.name = "espalier_requests_total",
                                      .help = "Requests by how they ended",
                                      .labels = labels});
  }
  counter->Increment();
}

MetricsSnapshot CoordinatorMetrics::Snapshot() const {
  MetricsSnapshot seen = {
      .generated_tokens = requests.generation_tokens.Value(),
      .stage_seconds = StageSeconds(stages),
      .rejected = rejected_.Values(),
      .time_to_first_token = requests.time_to_first_token.Collect().histogram,
      .time_per_output_token =
          requests.time_per_output_token.Collect().histogram,
      .request_duration = requests.duration.Collect().histogram};
  for (const auto& [reason, count] : degraded_steps_.Values()) {
    seen.degraded_rounds += count;
  }
  for (const auto& drafter : drafters_) {
    seen.drafters.push_back({.asked_rounds = drafter->asked_rounds.Value(),
                             .requests = drafter->requests.Values(),
                             .ahead = drafter->ahead.Values()});
  }
  MutexLock lock(&mutex_);
  for (const auto& [strategy_and_rule, spec] : spec_) {
    seen.all_rounds += spec->num_drafts.Value();
    if (strategy_and_rule.first == kNoStrategy) continue;
    seen.speculated.drafts += spec->num_drafts.Value();
    seen.speculated.draft_tokens += spec->num_draft_tokens.Value();
    seen.speculated.accepted_tokens += spec->num_accepted_tokens.Value();
    seen.speculated.emitted_tokens += spec->num_emitted_tokens.Value();
  }
  for (const auto& [end, counter] : requests_by_end_) {
    seen.requests[absl::StatusCodeToString(end.first)] += counter->Value();
  }
  for (const auto& [set, gauge] : balances_) {
    seen.balance_seconds[set] = gauge->Value();
  }
  return seen;
}

}  // namespace espalier::coordinator
