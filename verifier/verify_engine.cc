#include "verifier/verify_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/spec/stale_base.h"

namespace espalier::verifier {
namespace {

// The rule that stands for "auto".
constexpr char kDefaultRule[] = "walk";

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

// The first nodes are a tree too. Its laws hold only for all of it, and whether
// they stay must not depend on how many draws were alike. REQUIRES: size >= 1.
void CutTree(TokenTree& tree, int64_t size) {
  if (std::ssize(tree.slots) >= size) tree.DropLaws();
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
      costs_(options.pass_costs),
      executor_(std::move(executor)) {
  const ModelInfo& target = model_->info();
  published_costs_ = costs_.points();
  info_.model = options.identity;
  info_.model.vocab_size = target.config.vocab_size;
  info_.site = options.site;
  info_.epoch = options.epoch;
  info_.max_context = target.max_context;
  info_.max_tree_nodes = std::min(options.max_tree_nodes, target.max_rows - 1);
  for (const auto& [name, rule] : rules_) info_.rules.push_back(name);
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
                          Done<Verdict> done) {
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

// Cheap, so that all that has arrived is admitted before the next pass, and an
// EndSequence that follows its Verify comes in time to save that.
void VerifyEngine::Admit(std::unique_ptr<Job> job) {
  const SequenceUpdate& update = job->request.update;
  const SequenceId id = update.sequence;
  auto found = sessions_.find(id);
  Session* session = found == sessions_.end() ? nullptr : found->second.get();
  if (session != nullptr && session->last_verdict &&
      session->last_verdict->round == update.round) {
    std::move(job->done)(*session->last_verdict);
    return;
  }
  if (absl::Status status = CheckAdmission(*job, session); !status.ok()) {
    std::move(job->done)(std::move(status));
    return;
  }
  if (session == nullptr) {
    session =
        sessions_.emplace(id, std::make_unique<Session>()).first->second.get();
    session->cache = model_->NewSequence();
    UpdateGauges();
  }
  Answer(*session, absl::CancelledError("the sequence was asked for again"));
  ApplyUpdate(job->request, *session);
  // Near the end of the context the tree's last nodes may not fit.
  CutTree(job->request.tree,
          info_.max_context + 1 - static_cast<int64_t>(session->tokens.size()));
  ChooseRule(*job);
  ChooseComparison(*job);
  session->job = std::move(job);
  session->job->ticket = next_ticket_++;
  PostTurn();
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
  if (session == nullptr) {
    if (static_cast<int64_t>(sessions_.size()) < options_.max_sessions) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", options_.max_sessions, " sessions of the verifier are open"));
  }
  if (session->last_verdict && update.round < session->last_verdict->round) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", update.round, " is over: round ",
                     session->last_verdict->round, " was answered"));
  }
  return absl::OkStatus();
}

// The rule that was asked for, or the walk where that is not for this request:
// settled before anything is computed or drawn.
void VerifyEngine::ChooseRule(Job& job) const {
  job.rule = &*rules_.find(RuleName(job.request));
  if (job.rule->first == kDefaultRule) return;
  job.refusal = job.request.update.sampling.greedy()
                    ? "greedy"
                    : job.rule->second->Refusal(job.request.tree);
  if (!job.refusal.empty()) job.rule = &*rules_.find(kDefaultRule);
}

// Every so many rounds, whatever was drawn in them.
void VerifyEngine::ChooseComparison(Job& job) {
  if (job.request.update.sampling.greedy() || !job.request.tree.claims_laws()) {
    return;
  }
  comparisons_due_ += options_.compared_rounds;
  job.compared = comparisons_due_ >= 1;
  if (job.compared) comparisons_due_ -= 1;
}

// Leaves the K/V of every token that stays the same, but not of the root.
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
  WantFeatures(request.features, session);
  session.last_used = executor_->Now();
}

// Goes on with what earlier requests without a verdict have left.
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

// Behind all that has arrived, so that it is admitted and can join.
void VerifyEngine::PostTurn() {
  if (turn_is_posted_) return;
  turn_is_posted_ = true;
  executor_->Post([this] { TakeTurn(); });
}

void VerifyEngine::TakeTurn() {
  turn_is_posted_ = false;
  if (stopping_) return;
  const std::vector<Session*> waiting = TakeWaiting();
  std::vector<PassWork> work;
  for (const Session* session : waiting) {
    work.push_back(RemainingWork(*session));
  }
  std::vector<Member> members;
  for (const PassShare& share : PlanPass(work, pass_limits_)) {
    members.push_back({waiting[share.request], share});
  }
  if (!members.empty()) RunPass(members);
  const auto waits = [](const Session* s) { return s->job != nullptr; };
  if (std::any_of(waiting.begin(), waiting.end(), waits)) PostTurn();
  UpdateGauges();
}

// The sessions whose requests wait, oldest first. Answers those that are late.
std::vector<VerifyEngine::Session*> VerifyEngine::TakeWaiting() {
  const absl::Time now = executor_->Now();
  std::vector<Session*> waiting;
  for (auto& [id, session] : sessions_) {
    if (session->job == nullptr) continue;
    if (now >= session->job->deadline) {
      session->last_used = now;
      Answer(*session, absl::DeadlineExceededError(
                           "the deadline passed while the request waited"));
    } else {
      waiting.push_back(session.get());
    }
  }
  std::sort(waiting.begin(), waiting.end(), [](Session* a, Session* b) {
    return a->job->ticket < b->job->ticket;
  });
  return waiting;
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

// After a failure each member runs alone, so that it hits only who caused it.
void VerifyEngine::RunPass(absl::Span<const Member> members) {
  std::vector<TargetPass::Part> parts;
  for (const Member& member : members) {
    parts.push_back(PartOf(*member.session, member.share));
  }
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
  metrics_.SetPassCosts(costs_.points());
  MutexLock lock(&published_mutex_);
  published_costs_ = costs_.points();
}

// Commits what the pass computed for one session, and shares out its time as
// VerifyTimings says.
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

absl::StatusOr<Verdict> VerifyEngine::DecideRound(
    Session& session, const TargetPass::Output& output, size_t part) {
  Job& job = *session.job;
  job.timings.queue += executor_->Now() - job.waiting_since;
  if (job.compared) CompareRules(output, part);
  ASSIGN_OR_RETURN(Verdict verdict, target_pass_.CommitTree(output, part));
  verdict.round = job.request.update.round;
  verdict.rule = job.rule->first;
  verdict.timings.queue = job.timings.queue;
  verdict.timings.prefill = job.timings.prefill;
  verdict.timings.forward = job.timings.forward;
  verdict.pass_costs = costs_.points();
  verdict.features = std::exchange(session.features, {});
  session.tokens.insert(session.tokens.end(), verdict.tokens.begin(),
                        verdict.tokens.end());
  session.last_verdict = verdict;
  metrics_.ObserveRound(verdict);
  if (!job.refusal.empty()) {
    metrics_.CountRefusal(job.request.rule, std::string(job.refusal));
  }
  return verdict;
}

// A failure shows when the round is decided.
void VerifyEngine::CompareRules(const TargetPass::Output& output, size_t part) {
  const auto lengths = target_pass_.Compare(output, part, comparison_);
  if (lengths.ok()) metrics_.ObserveRules(*lengths);
}

// Answers the session's request, if there is one.
void VerifyEngine::Answer(Session& session, absl::StatusOr<Verdict> verdict) {
  const std::unique_ptr<Job> job = std::move(session.job);
  if (job != nullptr) std::move(job->done)(std::move(verdict));
}

void VerifyEngine::Drop(SequenceId id, const absl::Status& reason) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Answer(*found->second, reason);
  model_->Release(found->second->cache);
  sessions_.erase(found);
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
  metrics_.sessions_open.Set(static_cast<double>(sessions_.size()));
  metrics_.kv_tokens_used.Set(static_cast<double>(kv.used_tokens));
  metrics_.kv_tokens_capacity.Set(static_cast<double>(kv.total_tokens));
  metrics_.kv_usage_ratio.Set(kv.total_tokens > 0
                                  ? static_cast<double>(kv.used_tokens) /
                                        static_cast<double>(kv.total_tokens)
                                  : 0);
}

}  // namespace espalier::verifier
