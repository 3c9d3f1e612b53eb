#include "verifier/engine/verify_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr int64_t kMaxLogprobBytes = int64_t{16} << 20;
// What a prompt's row costs with its logits, in rows without them. Smaller
// parts of such prompts keep the passes of all sessions short.
constexpr int64_t kLogitRowCost = 4;

absl::Status CheckOptions(const VerifyEngine::Options& options,
                          const ModelInfo& model) {
  if (options.max_sessions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_sessions ", options.max_sessions, " is below 1"));
  }
  if (options.max_tree_nodes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tree_nodes ", options.max_tree_nodes, " is negative"));
  }
  if (options.max_batch_rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_rows ", options.max_batch_rows, " is below 1"));
  }
  if (!(options.compared_rounds >= 0 && options.compared_rounds <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compared_rounds ", options.compared_rounds, " is not in 0 .. 1"));
  }
  if (options.session_ttl <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("session_ttl is not above 0");
  }
  if (model.max_rows < 1 || model.max_context < 1) {
    return absl::InvalidArgumentError("the model has room for no token");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerifyEngine>> VerifyEngine::Create(
    const Options& options, std::unique_ptr<LanguageModel> model,
    std::unique_ptr<Executor> executor, const Registry<VerificationRule>& rules,
    prometheus::Registry& metrics) {
  RETURN_IF_ERROR(CheckOptions(options, model->info()));
  Rules made;
  for (const std::string& name : rules.Names()) {
    ASSIGN_OR_RETURN(made[name], rules.Create(name));
  }
  const auto takes_all = made.find(kDefaultRule);
  if (takes_all == made.end() || takes_all->second->needs().sampling) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no rule \"", kDefaultRule, "\" that decides at every temperature"));
  }
  return std::unique_ptr<VerifyEngine>(
      new VerifyEngine(options, std::move(model), std::move(executor),
                       std::move(made), metrics));
}

VerifyEngine::VerifyEngine(const Options& options,
                           std::unique_ptr<LanguageModel> model,
                           std::unique_ptr<Executor> executor, Rules rules,
                           prometheus::Registry& metrics)
    : options_(options),
      model_(std::move(model)),
      shares_prefixes_(options_.shares_prefixes && model_->info().shares_kv),
      rules_(std::move(rules)),
      metrics_(metrics, options.identity.name, options.pass_costs),
      target_pass_(*model_, *executor),
      feature_cache_({.block_tokens = model_->info().kv_groups.block_tokens,
                      .max_bytes = options_.max_feature_bytes}),
      logprob_cache_(shares_prefixes_ ? kMaxLogprobBytes : 0),
      costs_(options.pass_costs,
             std::min({options.max_batch_rows, model_->info().max_rows,
                       model_->info().max_context}),
             options.pass_costs_are_doubtful),
      executor_(std::move(executor)) {
  const ModelInfo& target = model_->info();
  published_costs_ = costs_.points();
  info_.model = options.identity;
  info_.model.vocab_size = target.config.vocab_size;
  info_.model.weights_fingerprint = target.fingerprint;
  info_.cpu_group = options.cpu_group;
  info_.epoch = options.epoch;
  info_.max_context = target.max_context;
  info_.max_tree_nodes = std::min(options.max_tree_nodes, target.max_rows - 1);
  for (const auto& [name, rule] : rules_) {
    info_.rules.push_back(name);
    if (!rule->needs().draft_distributions) continue;
    info_.distribution_rules.push_back(name);
  }
  info_.eos_token_ids = options.end_tokens;
  info_.supports_grammars = options.grammars != nullptr;
  info_.shape = {.num_layers = target.config.num_layers,
                 .hidden_size = target.config.hidden_size};
  info_.ring = target.feature_ring;
  info_.device = absl::StrCat(target.device, ", ", target.compute_dtype, ", ",
                              target.threads, " threads, ", target.backend);
  limits_ = {.vocab_size = info_.model.vocab_size,
             .max_context = info_.max_context,
             .max_tree_nodes = info_.max_tree_nodes,
             .shape = info_.shape};
  pass_limits_ = {.batch_rows = options.max_batch_rows,
                  .sequence_rows = target.max_rows};
  executor_->Post([this] {
    DropIdleSessions();
    UpdateGauges();
    PostMeasurement(kRest);
  });
}

VerifyEngine::~VerifyEngine() {
  stopping_ = true;
  if (options_.grammars) options_.grammars->Stop();
  executor_->Post([this] {
    for (auto& [id, session] : sessions_) {
      Answer(*session, absl::UnavailableError("the verifier is stopping"));
    }
  });
}

VerifierInfo VerifyEngine::info() const {
  VerifierInfo info = info_;
  MutexLock lock(&published_mutex_);
  info.pass_costs = published_costs_;
  info.memory = published_memory_;
  return info;
}

void VerifyEngine::Verify(VerifyRequest request, absl::Time deadline,
                          Done<VerifyResult> done) {
  auto job = std::make_unique<Job>(Job{.request = std::move(request),
                                       .deadline = deadline,
                                       .done = std::move(done),
                                       .waiting_since = executor_->Now()});
  executor_->Post(
      [this, job = std::move(job)]() mutable { Admit(std::move(job)); });
}

void VerifyEngine::EndSequence(SequenceId sequence) {
  executor_->Post([this, sequence] {
    Drop(sequence, absl::CancelledError("the sequence was ended"));
  });
}

VerifyEngine::Place VerifyEngine::NextPlace(absl::Duration delay) {
  return {executor_->Now() + delay, next_place_++};
}

// Posted after all requests that have arrived, so that they are admitted and
// can join the pass.
void VerifyEngine::PostTurn() {
  if (turn_is_posted_) return;
  turn_is_posted_ = true;
  executor_->Post([this] { TakeTurn(); });
}

void VerifyEngine::PostTurnAt(absl::Time when) {
  if (turn_at_ <= when) return;
  turn_at_ = when;
  executor_->PostAt(when, [this, when] {
    if (turn_at_ != when) return;  // replaced by an earlier one
    turn_at_ = absl::InfiniteFuture();
    PostTurn();
  });
}

void VerifyEngine::TakeTurn() {
  turn_is_posted_ = false;
  if (stopping_ || !lost_.ok()) return;
  AnswerLate();
  const std::vector<Session*> running = TakeRoom();
  CountRoomWaits(running);
  if (const absl::Duration wait = CompanyWait(running);
      wait > absl::ZeroDuration()) {
    PostTurnAt(executor_->Now() + wait);
    return;
  }
  std::vector<PassWork> work;
  for (const Session* session : running) {
    work.push_back(RemainingWork(*session));
  }
  std::vector<Member> members;
  for (const PassShare& share : PlanPass(work, pass_limits_)) {
    members.push_back({running[share.request], share});
  }
  if (!members.empty()) RunPass(members);
  if (!WithRequests().empty()) {
    if (members.empty()) {
      PostTurnAt(WhenRoomMayCome());
    } else {
      PostTurn();
    }
  }
  UpdateGauges();
}

void VerifyEngine::AnswerLate() {
  const absl::Time now = executor_->Now();
  for (Session* session : WithRequests()) {
    if (now < session->job->deadline) continue;
    session->last_used = now;
    Answer(*session, absl::DeadlineExceededError(
                         "the deadline passed while the request waited"));
  }
}

std::vector<VerifyEngine::Session*> VerifyEngine::WithRequests() const {
  std::vector<Session*> waiting;
  for (const auto& [id, session] : sessions_) {
    if (session->job != nullptr) waiting.push_back(session.get());
  }
  return waiting;
}

// How long a pass for `waiting` should wait for the sessions that are between
// two rounds.
absl::Duration VerifyEngine::CompanyWait(
    absl::Span<Session* const> waiting) const {
  if (waiting.empty()) return absl::ZeroDuration();
  int64_t rows = 0;
  for (const Session* session : waiting) {
    const PassWork work = RemainingWork(*session);
    if (work.prompt_rows > 0) return absl::ZeroDuration();
    rows += work.tree_rows;
  }
  const absl::Time now = executor_->Now();
  std::vector<AwaitedCompany> awaited;
  for (const auto& [id, session] : sessions_) {
    if (session->job != nullptr) continue;
    awaited.push_back(
        {.due = session->return_time.Remaining(now - session->answered),
         .rows = session->answered_rows});
  }
  return WaitForCompany(rows, std::move(awaited), costs_.points(),
                        options_.max_batch_rows);
}

PassWork VerifyEngine::RemainingWork(const Session& session) const {
  const int64_t before_root = static_cast<int64_t>(session.tokens.size()) - 1;
  return {.prompt_rows = before_root - model_->Length(session.cache),
          .tree_rows = session.job->request.tree.num_nodes(),
          .prompt_row_cost =
              session.job->request.logprobs.prompt ? kLogitRowCost : 1};
}

TargetPass::Part VerifyEngine::PartOf(Session& session,
                                      const PassShare& share) const {
  const VerifyRequest& request = session.job->request;
  TargetPass::Part part = {
      .cache = session.cache,
      .prompt = absl::MakeConstSpan(session.tokens)
                    .subspan(model_->Length(session.cache), share.prompt_rows),
      .committed = session.tokens,
      .logprobs = request.logprobs};
  if (request.logprobs.prompt) part.prompt_logprobs = &session.prompt_logprobs;
  if (share.with_tree) {
    part.tree = &request.tree;
    part.sampling = &request.update.sampling;
    part.rule = session.job->rule->second.get();
    part.adjustments = &request.adjustments;
    if (session.job->masked) part.masks = &session.job->masked->masks;
    part.compared = session.job->compared;
  }
  const int64_t end = model_->Length(session.cache) + part.rows();
  if (CollectsFeatures(session) && end > session.features.end_position()) {
    part.features = &session.features;
  }
  WantRanks(session, part);
  part.stored = absl::MakeSpan(session.stored);
  if (part.features != nullptr || !part.stored.empty()) {
    part.taps = session.taps;
  }
  return part;
}

// Not where the model leaves out logits (a grammar), or has those of the tree
// alone (a rule that gathers distributions; then the tree's are ranked).
void VerifyEngine::WantRanks(Session& session, TargetPass::Part& part) const {
  const VerifyRequest& request = session.job->request;
  if (request.ranks.top == 0 || request.adjustments.grammar.any()) return;
  const int32_t top = static_cast<int32_t>(
      std::min<int64_t>(request.ranks.top, info_.model.vocab_size));
  if (session.ranks.top != top) session.ranks = {.top = top};
  part.ranks = &session.ranks;
  if (session.job->rule->second->needs().logits == LogitNeed::kGathered) return;
  const int64_t root = std::ssize(session.tokens) - 1;
  const int64_t end = model_->Length(session.cache) + part.prompt_rows();
  const int64_t first =
      std::max(session.ranked_end, root - request.ranks.prompt_rows);
  part.ranked_prompt_rows =
      std::clamp<int64_t>(end - first, 0, part.prompt_rows());
}

// After a failure each member runs alone, so that only the one that caused it
// fails.
void VerifyEngine::RunPass(absl::Span<const Member> members) {
  std::vector<TargetPass::Part> parts;
  for (const Member& member : members) {
    parts.push_back(PartOf(*member.session, member.share));
  }
  MeasureBefore(parts);
  if (!lost_.ok()) return;
  const auto output = target_pass_.Forward(std::move(parts));
  if (output.ok()) {
    ObservePass(*output);
    for (size_t i = 0; i < members.size() && lost_.ok(); ++i) {
      FinishPart(*members[i].session, *output, i);
    }
  } else if (absl::IsUnavailable(output.status())) {
    GiveUp(output.status());
  } else if (members.size() > 1) {
    for (size_t i = 0; i < members.size() && lost_.ok(); ++i) {
      RunPass(members.subspan(i, 1));
    }
  } else {
    Answer(*members[0].session, output.status());
  }
}

// Nothing but a new process helps, so no member is tried alone.
void VerifyEngine::GiveUp(const absl::Status& status) {
  if (!lost_.ok()) return;
  lost_ = status;
  for (auto& [id, session] : sessions_) Answer(*session, lost_);
  if (options_.on_model_lost) options_.on_model_lost(lost_);
}

// Commits the results of the pass for one session, and attributes the time of
// the pass as VerifyTimings describes.
void VerifyEngine::FinishPart(Session& session,
                              const TargetPass::Output& output, size_t index) {
  Job& job = *session.job;
  const TargetPass::Part& part = output.parts[index];
  const absl::Duration time = output.end - output.begin;
  session.last_used = output.end;
  if (part.ranked_prompt_rows > 0) {
    session.ranked_end = model_->Length(session.cache) + part.prompt_rows();
  }
  job.timings.queue += output.begin - job.waiting_since;
  job.waiting_since = output.end;
  if (part.tree != nullptr) {
    const absl::Duration prefill = time * part.prompt_rows() / part.rows();
    job.timings.prefill += prefill;
    job.timings.forward = time - prefill;
    absl::StatusOr<VerifyResult> decided = DecideRound(session, output, index);
    const absl::Status status = decided.status();
    Answer(session, std::move(decided));
    if (absl::IsUnavailable(status)) GiveUp(status);
    return;
  }
  job.timings.prefill += time;
  job.turn = NextPlace(session.delay);  // to the back of the queue
  if (absl::Status status = target_pass_.CommitPrompt(output, index);
      !status.ok()) {
    Answer(session, status);
    if (absl::IsUnavailable(status)) GiveUp(status);
    return;
  }
  OfferFeatures(session);
}

absl::StatusOr<VerifyResult> VerifyEngine::DecideRound(
    Session& session, const TargetPass::Output& output, size_t part) {
  Job& job = *session.job;
  job.timings.queue += executor_->Now() - job.waiting_since;
  if (job.compared) CompareRules(output, part);
  ASSIGN_OR_RETURN(VerifyResult verify_result,
                   target_pass_.CommitTree(output, part));
  if (job.masked) {
    for (int32_t& node : verify_result.path) node = job.masked->nodes[node];
  }
  verify_result.round = job.request.update.round;
  verify_result.rule = job.rule->first;
  verify_result.timings.queue = job.timings.queue;
  verify_result.timings.room = job.timings.room;
  verify_result.timings.prefill = job.timings.prefill;
  verify_result.timings.forward = job.timings.forward;
  verify_result.pass_costs = costs_.points();
  verify_result.memory = Memory();
  verify_result.cached_tokens = job.cached_tokens;
  if (job.request.logprobs.prompt) {
    logprob_cache_.Offer(session.tokens, session.salt, session.prompt_logprobs);
  }
  verify_result.prompt_logprobs = std::exchange(session.prompt_logprobs, {});
  session.tokens.insert(session.tokens.end(), verify_result.tokens.begin(),
                        verify_result.tokens.end());
  OfferFeatures(session);
  if (!session.wanted.deferred) verify_result.features = TakeFeatures(session);
  verify_result.stored = TakeStored(session);
  verify_result.ranks = std::exchange(session.ranks, {});
  session.last_verify_result = verify_result;
  session.answered = executor_->Now();
  session.answered_rows = job.request.tree.num_nodes();
  metrics_.ObserveRound(verify_result);
  if (!job.unsupported.empty()) {
    metrics_.CountFallback(job.request.rule, std::string(job.unsupported));
  }
  return verify_result;
}

// A failure is reported when the round is decided.
void VerifyEngine::CompareRules(const TargetPass::Output& output, size_t part) {
  const auto lengths = target_pass_.Compare(output, part, comparison_);
  if (lengths.ok()) metrics_.ObserveRules(*lengths);
}

MemoryUse VerifyEngine::Memory() const {
  const KvUsage kv = model_->kv_usage();
  const KvGroups& groups = model_->info().kv_groups;
  return {.kv_tokens = groups.TokensIn(kv.total_tokens),
          .kv_tokens_used = groups.TokensIn(kv.used_tokens),
          .kv_tokens_cached = groups.TokensIn(kv.cached_tokens),
          .device_bytes = device_memory_.total_bytes,
          .device_bytes_used = device_memory_.used_bytes};
}

void VerifyEngine::UpdateGauges() {
  const KvUsage kv = model_->kv_usage();
  const MemoryUse memory = Memory();
  {
    MutexLock lock(&published_mutex_);
    published_memory_ = memory;
  }
  const auto waiting = WithRequests();
  metrics_.sessions_without_room.Set(static_cast<double>(
      std::count_if(waiting.begin(), waiting.end(),
                    [](const Session* s) { return !s->admitted; })));
  metrics_.sessions_open.Set(static_cast<double>(sessions_.size()));
  metrics_.kv_tokens_used.Set(static_cast<double>(memory.kv_tokens_used));
  metrics_.kv_tokens_cached.Set(static_cast<double>(memory.kv_tokens_cached));
  metrics_.prefix_evictions.Increment(
      static_cast<double>(
          model_->info().kv_groups.TokensIn(kv.evicted_tokens)) -
      metrics_.prefix_evictions.Value());
  metrics_.kv_tokens_capacity.Set(static_cast<double>(memory.kv_tokens));
  metrics_.kv_usage_ratio.Set(kv.total_tokens > 0
                                  ? static_cast<double>(kv.used_tokens) /
                                        static_cast<double>(kv.total_tokens)
                                  : 0);
}

}  // namespace espalier::verifier
