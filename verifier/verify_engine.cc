#include "verifier/verify_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/spec/stale_base.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

// Tokens that a sequence is expected to add soon, if its limit allows. At least
// this many are gained between two preemptions, which pays for recomputing the
// K/V.
constexpr int64_t kExpectedTokens = 256;

// A session without a request for this long gives its K/V room to others: its
// coordinator hangs, or the connection is lost.
constexpr absl::Duration kDormantAfter = absl::Seconds(1);

constexpr absl::Duration kLogRoomEvery = absl::Minutes(1);

std::string RuleName(const VerifyRequest& request) {
  return request.rule == "auto" ? kDefaultRule : request.rule;
}

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

// The engine is idle after this long without a request. Longer than the time
// between two rounds of a session, when drafters work.
constexpr absl::Duration kRest = absl::Milliseconds(100);
// Pause after an idle measurement, as a multiple of its duration.
constexpr int kMeasurementPause = 4;

// A root with its children.
TokenTree StarOf(int64_t rows) {
  TokenTree tree = TokenTree::RootOnly(0);
  for (int64_t i = 1; i < rows; ++i) tree.Add(0, 0, 0);
  return tree;
}

// Keeps the first `size` nodes, which are a valid tree. The distributions are
// valid only for the whole tree, and whether they are kept must not depend on
// how many draws gave the same token; so the number of samples decides.
// REQUIRES: size >= 1.
void CutTree(TokenTree& tree, int64_t size) {
  if (std::ssize(tree.samples) >= size) tree.DropDistributions();
  if (tree.num_nodes() <= size) return;
  tree.tokens.resize(size);
  tree.parents.resize(size);
  tree.log_probs.resize(size);
  if (!tree.provenance.empty()) tree.provenance.resize(size);
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
      rules_(std::move(rules)),
      metrics_(metrics, options.identity.name, options.pass_costs),
      target_pass_(*model_, *executor),
      costs_(options.pass_costs,
             std::min({options.max_batch_rows, model_->info().max_rows,
                       model_->info().max_context})),
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
  info_.eos_token_ids = target.config.eos_ids;
  info_.shape = {.num_layers = target.config.num_layers,
                 .hidden_size = target.config.hidden_size};
  info_.device = absl::StrCat(target.device, ", ", target.compute_dtype, ", ",
                              target.threads, " threads, ", target.backend);
  limits_ = {.vocab_size = info_.model.vocab_size,
             .max_context = info_.max_context,
             .max_tree_nodes = info_.max_tree_nodes,
             .shape = info_.shape};
  pass_limits_ = {.batch_rows = options.max_batch_rows,
                  .sequence_rows = target.max_rows};
  executor_->Post([this] {
    UpdateGauges();
    DropIdleSessions();
    PostMeasurement(kRest);
  });
}

VerifyEngine::~VerifyEngine() {
  stopping_ = true;
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

// Cheap, so that all requests that have arrived are admitted before the next
// pass, and an EndSequence right after its Verify saves that pass.
void VerifyEngine::Admit(std::unique_ptr<Job> job) {
  last_request_ = executor_->Now();
  PostMeasurement(kRest);
  const SequenceUpdate& update = job->request.update;
  const SequenceId id = update.sequence;
  auto found = sessions_.find(id);
  Session* session = found == sessions_.end() ? nullptr : found->second.get();
  if (session != nullptr && Repeat(*job, *session)) return;
  if (absl::Status status = CheckAdmission(*job, session); !status.ok()) {
    std::move(job->done)(std::move(status));
    return;
  }
  if (session == nullptr) {
    if (absl::Status room = MakeRoom(id.coordinator_epoch); !room.ok()) {
      std::move(job->done)(std::move(room));
      return;
    }
    session =
        sessions_.emplace(id, std::make_unique<Session>()).first->second.get();
    session->age = next_age_++;
    session->cache = model_->NewSequence();
    UpdateGauges();
  }
  Answer(*session, absl::CancelledError("the sequence was asked for again"));
  session->asked = job->request;
  if (session->answered != absl::InfinitePast()) {
    session->return_time.Observe(job->waiting_since - session->answered);
    session->answered = absl::InfinitePast();
  }
  ApplyUpdate(job->request, *session);
  // Near the end of the context, the last nodes of the tree may not fit.
  CutTree(job->request.tree,
          info_.max_context + 1 - static_cast<int64_t>(session->tokens.size()));
  ChooseRule(*job);
  ChooseComparison(*job);
  session->job = std::move(job);
  session->job->ticket = next_ticket_++;
  PostTurn();
}

bool VerifyEngine::Repeat(Job& job, Session& session) {
  const bool same = AskTheSame(session.asked, job.request);
  const uint64_t round = job.request.update.round;
  if (session.last_verify_result &&
      session.last_verify_result->round == round) {
    if (same) {
      std::move(job.done)(*session.last_verify_result);
    } else {
      std::move(job.done)(absl::InvalidArgumentError(absl::StrCat(
          "round ", round, " was answered for another text or tree")));
    }
    return true;
  }
  if (session.job == nullptr || !same ||
      session.job->request.update.round != round) {
    return false;
  }
  std::swap(session.job->done, job.done);
  session.job->deadline = job.deadline;
  std::move(job.done)(absl::CancelledError("the sequence was asked for again"));
  return true;
}

absl::Status VerifyEngine::CheckAdmission(const Job& job,
                                          const Session* session) const {
  if (stopping_) return absl::UnavailableError("the verifier is stopping");
  const SequenceUpdate& update = job.request.update;
  RETURN_IF_ERROR(CheckVerifyRequest(job.request, limits_));
  if (!rules_.contains(RuleName(job.request))) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown rule \"", job.request.rule, "\"; known: auto, ",
                     absl::StrJoin(info_.rules, ", ")));
  }
  absl::Span<const TokenId> held;
  if (session != nullptr) held = session->tokens;
  RETURN_IF_ERROR(CheckBase(held, update));
  RETURN_IF_ERROR(CheckRoot(held, job.request));
  if (session == nullptr) return absl::OkStatus();
  if (session->last_verify_result &&
      update.round < session->last_verify_result->round) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", update.round, " is over: round ",
                     session->last_verify_result->round, " was answered"));
  }
  return absl::OkStatus();
}

// When all sessions are open, the coordinator with the most sessions loses one
// to a coordinator with fewer: its least recently used session without a
// request. So no coordinator can occupy all of them. The coordinator sends the
// lost session's tokens again.
absl::Status VerifyEngine::MakeRoom(uint64_t epoch) {
  if (static_cast<int64_t>(sessions_.size()) < options_.max_sessions) {
    return absl::OkStatus();
  }
  absl::flat_hash_map<uint64_t, int64_t> held;  // sessions by epoch
  for (const auto& [id, session] : sessions_) ++held[id.coordinator_epoch];
  const int64_t own = held[epoch];
  const auto most = std::max_element(
      held.begin(), held.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  std::optional<SequenceId> oldest;
  absl::Time oldest_use = absl::InfiniteFuture();
  for (const auto& [id, session] : sessions_) {
    if (id.coordinator_epoch == most->first && session->job == nullptr &&
        session->last_used < oldest_use) {
      oldest = id;
      oldest_use = session->last_used;
    }
  }
  if (most->second <= own + 1 || !oldest) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", options_.max_sessions, " sessions of the verifier are open"));
  }
  Drop(*oldest, absl::CancelledError("others need the room"));
  return absl::OkStatus();
}

// The requested rule, or the default rule if that does not support this
// request. Decided before anything is computed or sampled.
void VerifyEngine::ChooseRule(Job& job) const {
  job.rule = &*rules_.find(RuleName(job.request));
  VerificationRule& rule = *job.rule->second;
  const bool greedy = job.request.update.sampling.greedy();
  job.refusal = greedy && rule.needs().sampling
                    ? "greedy"
                    : rule.UnsupportedReason(job.request.tree);
  if (!job.refusal.empty()) job.rule = &*rules_.find(kDefaultRule);
}

// Selects rounds at a fixed rate, independently of what was sampled in them.
void VerifyEngine::ChooseComparison(Job& job) {
  if (job.request.update.sampling.greedy() ||
      !job.request.tree.claims_distributions()) {
    return;
  }
  comparisons_due_ += options_.compared_rounds;
  job.compared = comparisons_due_ >= 1;
  if (job.compared) comparisons_due_ -= 1;
}

// Keeps the K/V of all unchanged tokens except the root.
void VerifyEngine::ApplyUpdate(const VerifyRequest& request, Session& session) {
  std::vector<TokenId>& tokens = session.tokens;
  const std::vector<TokenId>& added = request.update.new_tokens;
  const auto replaced = tokens.begin() + request.update.base_length;
  const int64_t same =
      std::mismatch(replaced, tokens.end(), added.begin(), added.end()).first -
      tokens.begin();
  tokens.erase(replaced, tokens.end());
  tokens.insert(tokens.end(), added.begin(), added.end());
  const int64_t before_root = static_cast<int64_t>(tokens.size()) - 1;
  const int64_t keep = std::min(same, before_root);
  if (model_->Length(session.cache) > keep) {
    model_->Truncate(session.cache, keep);
  }
  session.max_length = request.max_length > 0
                           ? std::min(request.max_length, info_.max_context)
                           : info_.max_context;
  WantFeatures(request.features, session);
  session.last_used = executor_->Now();
}

// Continues the features that earlier requests without a result have collected.
void VerifyEngine::WantFeatures(const FeatureRequest& wanted,
                                Session& session) {
  const int64_t cached = model_->Length(session.cache);
  FeatureRows& rows = session.features;
  rows.CutFrom(cached);
  if (rows.empty() || rows.end_position() != cached ||
      wanted.taps != session.taps) {
    rows = {.first_position = std::max(cached, wanted.first_position),
            .width = static_cast<int64_t>(wanted.taps.size()) *
                     info_.shape.hidden_size};
  }
  session.taps = wanted.taps;
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
  if (stopping_) return;
  AnswerLate();
  const std::vector<Session*> running = TakeRoom();
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

// The sessions with a waiting request and K/V room for its next pass, in the
// order of the requests. Preempts other sessions where needed.
std::vector<VerifyEngine::Session*> VerifyEngine::TakeRoom() {
  std::vector<Session*> by_age;
  for (const auto& [id, session] : sessions_) by_age.push_back(session.get());
  std::sort(by_age.begin(), by_age.end(),
            [](Session* a, Session* b) { return a->age < b->age; });
  std::vector<RoomClaim> claims;
  for (const Session* session : by_age) claims.push_back(ClaimOf(*session));
  const KvUsage kv = model_->kv_usage();
  const RoomPlan plan =
      PlanRoom(claims, kv.total_tokens, kv.total_tokens - kv.used_tokens);

  for (size_t i : plan.admitted) by_age[i]->admitted = true;
  for (size_t i : plan.preempted) Preempt(*by_age[i]);
  std::vector<Session*> running;
  for (size_t i : plan.runs) running.push_back(by_age[i]);
  std::sort(running.begin(), running.end(), [](Session* a, Session* b) {
    return a->job->ticket < b->job->ticket;
  });
  return running;
}

RoomClaim VerifyEngine::ClaimOf(const Session& session) const {
  const ModelInfo& model = model_->info();
  RoomClaim claim = {.held = model_->HeldRoom(session.cache),
                     .waits = session.job != nullptr,
                     .admitted = session.admitted};
  const int64_t length = static_cast<int64_t>(session.tokens.size());
  int64_t expected = std::min(length + kExpectedTokens, session.max_length);
  if (claim.waits) {
    const PassWork work = RemainingWork(session);
    const int64_t rows = work.prompt_rows + work.tree_rows;
    const int64_t cached = model_->Length(session.cache);
    claim.next =
        model.RoomFor(cached + std::min(rows, std::max(pass_limits_.batch_rows,
                                                       work.tree_rows)));
    expected = std::max(expected, cached + rows);
  } else {
    claim.dormant = executor_->Now() - session.last_used >= kDormantAfter;
  }
  claim.expected = model.RoomFor(std::min(expected, model.max_context));
  return claim;
}

void VerifyEngine::Preempt(Session& session) {
  const absl::Time now = executor_->Now();
  if (now - room_was_short_ >= kLogRoomEvery) {
    room_was_short_ = now;
    LogWarning(
        absl::StrCat("the K/V pool of ", model_->kv_usage().total_tokens,
                     " tokens is short: a sequence of ", session.tokens.size(),
                     " gives way to an older one and is computed again later; ",
                     sessions_.size(), " are open"));
  }
  metrics_.preemptions.Increment();
  model_->Release(session.cache);
  session.cache = model_->NewSequence();
  session.admitted = false;
}

// When room may become free without a further request: when a deadline passes,
// or a session becomes dormant.
absl::Time VerifyEngine::WhenRoomMayCome() const {
  absl::Time when = executor_->Now() + kDormantAfter;
  for (const Session* session : WithRequests()) {
    when = std::min(when, session->job->deadline);
  }
  return when;
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
    const absl::Time due = session->answered + session->return_time.expected();
    if (session->job != nullptr || due <= now) continue;
    awaited.push_back({.due = due - now, .rows = session->answered_rows});
  }
  return WaitForCompany(rows, std::move(awaited), costs_.points(),
                        options_.max_batch_rows);
}

PassWork VerifyEngine::RemainingWork(const Session& session) const {
  const int64_t before_root = static_cast<int64_t>(session.tokens.size()) - 1;
  return {.prompt_rows = before_root - model_->Length(session.cache),
          .tree_rows = session.job->request.tree.num_nodes()};
}

TargetPass::Part VerifyEngine::PartOf(Session& session,
                                      const PassShare& share) const {
  const VerifyRequest& request = session.job->request;
  TargetPass::Part part = {
      .cache = session.cache,
      .prompt = absl::MakeConstSpan(session.tokens)
                    .subspan(model_->Length(session.cache), share.prompt_rows)};
  if (share.with_tree) {
    part.tree = &request.tree;
    part.sampling = &request.update.sampling;
    part.rule = session.job->rule->second.get();
    part.compared = session.job->compared;
  }
  const int64_t end = model_->Length(session.cache) + part.rows();
  if (!session.taps.empty() && end > session.features.end_position()) {
    part.taps = session.taps;
    part.features = &session.features;
  }
  return part;
}

// After a failure each member runs alone, so that only the one that caused it
// fails.
void VerifyEngine::RunPass(absl::Span<const Member> members) {
  std::vector<TargetPass::Part> parts;
  for (const Member& member : members) {
    parts.push_back(PartOf(*member.session, member.share));
  }
  MeasureBefore(parts);
  const auto output = target_pass_.Forward(std::move(parts));
  if (output.ok()) {
    ObservePass(*output);
    for (size_t i = 0; i < members.size(); ++i) {
      FinishPart(*members[i].session, *output, i);
    }
  } else if (members.size() > 1) {
    for (const Member& member : members) RunPass({&member, 1});
  } else {
    Answer(*members[0].session, output.status());
  }
}

void VerifyEngine::ObservePass(const TargetPass::Output& output) {
  metrics_.ObservePass(static_cast<int64_t>(output.parts.size()),
                       output.rows());
  if (!output.is_trees_only()) return;
  costs_.Observe(output.rows(), output.end - output.begin);
  PublishCosts();
}

void VerifyEngine::PublishCosts() {
  metrics_.SetPassCosts(costs_.points());
  MutexLock lock(&published_mutex_);
  published_costs_ = costs_.points();
}

// Times a pass on a scratch sequence. Only the number of its rows matters.
// Unset: the pass failed, for example because the K/V pool is full.
std::optional<absl::Duration> VerifyEngine::TimePass(int64_t rows) {
  const TokenTree star = StarOf(rows);
  const SamplingParams greedy;
  const CacheId scratch = model_->NewSequence();
  const auto output =
      target_pass_.Forward({{.cache = scratch,
                             .tree = &star,
                             .sampling = &greedy,
                             .rule = rules_.at(kDefaultRule).get()}});
  model_->Release(scratch);
  if (!output.ok()) return std::nullopt;
  return output->end - output->begin;
}

// Runs seldom, as the sessions of the pass wait for it.
void VerifyEngine::MeasureBefore(absl::Span<const TargetPass::Part> parts) {
  int64_t rows = 0;
  for (const TargetPass::Part& part : parts) {
    if (!part.prompt.empty()) return;
    rows += part.rows();
  }
  const std::optional<int64_t> measured = costs_.RowsBefore(rows);
  if (!measured) return;
  const auto time = TimePass(*measured);
  if (time) costs_.ObserveBefore(*measured, *time);
}

void VerifyEngine::PostMeasurement(absl::Duration pause) {
  if (measurement_is_posted_ || !costs_.RowsAtRest()) return;
  measurement_is_posted_ = true;
  executor_->PostAt(executor_->Now() + pause, [this] {
    measurement_is_posted_ = false;
    MeasureAtRest();
  });
}

// Runs one pass at a time, so a request that arrives meanwhile waits for at
// most one.
void VerifyEngine::MeasureAtRest() {
  const std::optional<int64_t> rows = costs_.RowsAtRest();
  if (stopping_ || !rows) return;
  if (executor_->Now() < last_request_ + kRest) {
    PostMeasurement(kRest);
    return;
  }
  const auto time = TimePass(*rows);
  if (!time) return;  // the next request triggers another try
  costs_.Observe(*rows, *time);
  PublishCosts();
  PostMeasurement(kMeasurementPause * *time);
}

// Commits the results of the pass for one session, and attributes the time of
// the pass as VerifyTimings describes.
void VerifyEngine::FinishPart(Session& session,
                              const TargetPass::Output& output, size_t index) {
  Job& job = *session.job;
  const TargetPass::Part& part = output.parts[index];
  const absl::Duration time = output.end - output.begin;
  session.last_used = output.end;
  job.timings.queue += output.begin - job.waiting_since;
  job.waiting_since = output.end;
  if (part.tree != nullptr) {
    const absl::Duration prefill = time * part.prompt_rows() / part.rows();
    job.timings.prefill += prefill;
    job.timings.forward = time - prefill;
    Answer(session, DecideRound(session, output, index));
    return;
  }
  job.timings.prefill += time;
  job.ticket = next_ticket_++;  // to the back of the queue
  if (absl::Status status = target_pass_.CommitPrompt(output, index);
      !status.ok()) {
    Answer(session, std::move(status));
  }
}

absl::StatusOr<VerifyResult> VerifyEngine::DecideRound(
    Session& session, const TargetPass::Output& output, size_t part) {
  Job& job = *session.job;
  job.timings.queue += executor_->Now() - job.waiting_since;
  if (job.compared) CompareRules(output, part);
  ASSIGN_OR_RETURN(VerifyResult verify_result,
                   target_pass_.CommitTree(output, part));
  verify_result.round = job.request.update.round;
  verify_result.rule = job.rule->first;
  verify_result.timings.queue = job.timings.queue;
  verify_result.timings.prefill = job.timings.prefill;
  verify_result.timings.forward = job.timings.forward;
  verify_result.pass_costs = costs_.points();
  verify_result.features = std::exchange(session.features, {});
  session.tokens.insert(session.tokens.end(), verify_result.tokens.begin(),
                        verify_result.tokens.end());
  session.last_verify_result = verify_result;
  session.answered = executor_->Now();
  session.answered_rows = job.request.tree.num_nodes();
  metrics_.ObserveRound(verify_result);
  if (!job.refusal.empty()) {
    metrics_.CountRefusal(job.request.rule, std::string(job.refusal));
  }
  return verify_result;
}

// A failure is reported when the round is decided.
void VerifyEngine::CompareRules(const TargetPass::Output& output, size_t part) {
  const auto lengths = target_pass_.Compare(output, part, comparison_);
  if (lengths.ok()) metrics_.ObserveRules(*lengths);
}

// Answers the session's request, if there is one.
void VerifyEngine::Answer(Session& session,
                          absl::StatusOr<VerifyResult> verify_result) {
  const std::unique_ptr<Job> job = std::move(session.job);
  if (job != nullptr) std::move(job->done)(std::move(verify_result));
}

void VerifyEngine::Drop(SequenceId id, const absl::Status& reason) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Answer(*found->second, reason);
  model_->Release(found->second->cache);
  sessions_.erase(found);
  PostTurn();  // others may be waiting for its room
  UpdateGauges();
}

void VerifyEngine::DropIdleSessions() {
  const absl::Time now = executor_->Now();
  std::vector<SequenceId> idle;
  for (const auto& [id, session] : sessions_) {
    if (session->job == nullptr &&
        now - session->last_used >= options_.session_ttl) {
      idle.push_back(id);
    }
  }
  for (SequenceId id : idle) Drop(id, absl::CancelledError("idle"));
  executor_->PostAt(now + options_.session_ttl / 2,
                    [this] { DropIdleSessions(); });
}

void VerifyEngine::UpdateGauges() {
  const KvUsage kv = model_->kv_usage();
  const auto waiting = WithRequests();
  metrics_.sessions_without_room.Set(static_cast<double>(
      std::count_if(waiting.begin(), waiting.end(),
                    [](const Session* s) { return !s->admitted; })));
  metrics_.sessions_open.Set(static_cast<double>(sessions_.size()));
  metrics_.kv_tokens_used.Set(static_cast<double>(kv.used_tokens));
  metrics_.kv_tokens_capacity.Set(static_cast<double>(kv.total_tokens));
  metrics_.kv_usage_ratio.Set(kv.total_tokens > 0
                                  ? static_cast<double>(kv.used_tokens) /
                                        static_cast<double>(kv.total_tokens)
                                  : 0);
}

}  // namespace espalier::verifier
