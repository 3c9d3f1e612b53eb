#include "verifier/engine/verify_engine.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/speculation/request_errors.h"
#include "verifier/costs/cost_upkeep.h"
#include "verifier/engine/pass_company.h"
#include "verifier/engine/session_part.h"

namespace espalier::verifier {

absl::StatusOr<std::unique_ptr<VerifyEngine>> VerifyEngine::Create(
    const Options& options, std::unique_ptr<LanguageModel> model,
    std::unique_ptr<Executor> executor, const Registry<VerificationRule>& rules,
    prometheus::Registry& metrics) {
  RETURN_IF_ERROR(CheckOptions(options, model->info()));
  ASSIGN_OR_RETURN(RuleSelection selection,
                   RuleSelection::Create(rules, options.compared_rounds));
  return std::unique_ptr<VerifyEngine>(
      new VerifyEngine(options, std::move(model), std::move(executor),
                       std::move(selection), metrics));
}

VerifyEngine::VerifyEngine(const Options& options,
                           std::unique_ptr<LanguageModel> model,
                           std::unique_ptr<Executor> executor,
                           RuleSelection rules, prometheus::Registry& metrics)
    : options_(options),
      model_(std::move(model)),
      rules_(std::move(rules)),
      info_(DescribeEngine(options, model_->info(), rules_)),
      pass_limits_(PassLimitsOf(options, model_->info())),
      metrics_(metrics, options.identity.name, options.pass_costs),
      target_pass_(*model_, *executor),
      sessions_(*model_, *executor, options.max_sessions),
      prefixes_({.enabled = options.shares_prefixes,
                 .max_feature_bytes = options.max_feature_bytes},
                *model_, metrics_),
      features_(*model_, prefixes_.enabled()),
      room_({*model_, *executor, sessions_, prefixes_, metrics_},
            pass_limits_.prompt_rows),
      masks_(options.grammars, *executor,
             [this](std::unique_ptr<Job> job) { Admit(std::move(job)); }),
      measuring_(
          {*model_, target_pass_, *executor, rules_.default_rule(), metrics_},
          CostUpkeep(options.pass_costs,
                     std::min({options.max_batch_rows, model_->info().max_rows,
                               model_->info().max_context}),
                     options.pass_costs_trust),
          TreeRouting(options.unlike_experts),
          [this](const absl::Status& status) { GiveUp(status); }),
      memory_(*model_, metrics_),
      runner_({*model_, *executor, target_pass_, sessions_, prefixes_,
               features_, measuring_, memory_, metrics_}),
      executor_(std::move(executor)) {
  limits_ = {.vocab_size = info_.model.vocab_size,
             .max_context = info_.max_context,
             .max_tree_nodes = info_.max_tree_nodes,
             .shape = info_.shape};
  executor_->Post([this] {
    DropIdleSessions();
    memory_.Publish(sessions_);
    measuring_.OnRequest();
  });
}

VerifyEngine::~VerifyEngine() {
  stopping_ = true;
  measuring_.Stop();
  masks_.Stop();
  executor_->Post([this] {
    for (Session* session : sessions_.All()) {
      session->Answer(absl::UnavailableError("the verifier is stopping"));
    }
  });
}

VerifierInfo VerifyEngine::info() const {
  VerifierInfo info = info_;
  info.pass_costs = measuring_.published();
  info.memory = memory_.published();
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
  measuring_.OnRequest();
  Session* session = sessions_.Find(job->request.update.sequence);
  if (session != nullptr && session->Repeat(*job)) return;
  if (absl::Status status = CheckAdmission(*job, session); !status.ok()) {
    std::move(job->done)(std::move(status));
    return;
  }
  if (job->request.adjustments.grammar.any() && !job->masked) {
    rules_.Choose(*job);
    absl::Span<const TokenId> held;
    if (session != nullptr) held = session->tokens;
    masks_.Ask(std::move(job), held);
    return;
  }
  if (session == nullptr) {
    absl::StatusOr<Session*> opened = OpenSession(job->request);
    if (!opened.ok()) {
      std::move(job->done)(opened.status());
      return;
    }
    session = *opened;
  }
  session->Answer(absl::CancelledError("the sequence was asked for again"));
  session->asked = job->request;
  session->ObserveReturn(job->waiting_since);
  if (job->masked) job->request.tree = std::move(job->masked->tree);
  ApplyUpdate(job->request, *session);
  // Near the end of the context, the last nodes of the tree may not fit.
  CutTree(job->request.tree,
          info_.max_context + 1 - static_cast<int64_t>(session->tokens.size()));
  rules_.Choose(*job);
  rules_.ChooseComparison(*job);
  job->turn = sessions_.NextPlace(session->delay);
  session->job = std::move(job);
  PostTurn();
}

absl::Status VerifyEngine::CheckAdmission(const Job& job,
                                          const Session* session) const {
  if (stopping_) return absl::UnavailableError("the verifier is stopping");
  RETURN_IF_ERROR(lost_);
  const SequenceUpdate& update = job.request.update;
  RETURN_IF_ERROR(CheckVerifyRequest(job.request, limits_));
  const GrammarSpec& grammar = job.request.adjustments.grammar;
  if (grammar.any() && !masks_.has_grammars()) {
    return FieldError(FieldOf(grammar.kind),
                      "the verifier has no structured output");
  }
  RETURN_IF_ERROR(rules_.Check(job.request));
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

absl::StatusOr<Session*> VerifyEngine::OpenSession(
    const VerifyRequest& request) {
  const SequenceUpdate& update = request.update;
  ASSIGN_OR_RETURN(const std::optional<SequenceId> gives_way,
                   sessions_.GivesWayTo(update.sequence.coordinator_epoch));
  if (gives_way) {
    Drop(*gives_way, absl::CancelledError("others need the room"));
  }
  Session& session = sessions_.Open(update, absl::Seconds(request.priority));
  session.share = request.share;
  if (!update.traceparent.empty()) {
    LogInfo(absl::StrCat("traceparent ", update.traceparent, " sequence ",
                         update.sequence.number, " of ",
                         update.committed_length(), " tokens"));
  }
  memory_.Publish(sessions_);
  return &session;
}

// Keeps the K/V of all unchanged tokens except the root.
void VerifyEngine::ApplyUpdate(const VerifyRequest& request, Session& session) {
  const int64_t keep = session.ReplaceTokens(request.update);
  if (model_->Length(session.cache) > keep) {
    model_->Truncate(session.cache, keep);
  }
  session.max_length = request.max_length > 0
                           ? std::min(request.max_length, info_.max_context)
                           : info_.max_context;
  prefixes_.WantLogprobs(request.logprobs, session);
  features_.Want(request.features, session);
  session.last_used = executor_->Now();
}

void VerifyEngine::Drop(SequenceId id, const absl::Status& reason) {
  masks_.Forget(id);
  Session* session = sessions_.Find(id);
  if (session == nullptr) return;
  session->Answer(reason);
  prefixes_.Share(*session);
  sessions_.Erase(id);
  PostTurn();  // others may be waiting for its room
  memory_.Publish(sessions_);
}

void VerifyEngine::DropIdleSessions() {
  memory_.AskDevice();
  for (SequenceId id : sessions_.IdleFor(options_.session_ttl)) {
    Drop(id, absl::CancelledError("idle"));
  }
  executor_->PostAt(executor_->Now() + options_.session_ttl / 2,
                    [this] { DropIdleSessions(); });
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
  sessions_.AnswerLate();
  const std::vector<Session*> running = room_.TakeRoom();
  if (const absl::Duration wait = CompanyWait(running);
      wait > absl::ZeroDuration()) {
    PostTurnAt(executor_->Now() + wait);
    return;
  }
  std::vector<PassWork> work;
  for (const Session* session : running) {
    work.push_back(RemainingWork(*session, *model_));
  }
  std::vector<PassMember> members;
  for (const PassShare& share : PlanPass(work, LimitsNow())) {
    members.push_back({running[share.request], share});
  }
  if (!members.empty()) {
    if (absl::Status status = runner_.Run(members); !status.ok()) {
      GiveUp(status);
    }
  }
  if (!sessions_.WithRequests().empty()) {
    if (members.empty()) {
      PostTurnAt(room_.WhenRoomMayCome());
    } else {
      PostTurn();
    }
  }
  memory_.Publish(sessions_);
}

// How long a pass for `waiting` should wait for the sessions that are between
// two rounds.
absl::Duration VerifyEngine::CompanyWait(
    absl::Span<Session* const> waiting) const {
  if (waiting.empty()) return absl::ZeroDuration();
  int64_t rows = 0;
  for (const Session* session : waiting) {
    const PassWork work = RemainingWork(*session, *model_);
    if (work.prompt_rows > 0) return absl::ZeroDuration();
    rows += work.tree_rows;
  }
  return WaitForCompany(rows, sessions_.Awaited(), measuring_.costs(),
                        options_.max_batch_rows);
}

// A tree that comes during a pass for prompts waits for its end, so that is
// longer than others only if no tree is expected by then.
PassLimits VerifyEngine::LimitsNow() const {
  PassLimits limits = pass_limits_;
  const absl::Duration pass = PassTime(measuring_.costs(), limits.prompt_rows);
  for (const AwaitedCompany& company : sessions_.Awaited()) {
    if (company.due < pass) limits.prompt_rows = limits.batch_rows;
  }
  return limits;
}

// Nothing but a new process helps, so no member is tried alone.
void VerifyEngine::GiveUp(const absl::Status& status) {
  if (!lost_.ok()) return;
  lost_ = status;
  measuring_.Stop();
  for (Session* session : sessions_.All()) session->Answer(lost_);
  if (options_.on_model_lost) options_.on_model_lost(lost_);
}

}  // namespace espalier::verifier
