#include "coordinator/rounds/coordinator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

constexpr size_t kMaxDrafters = 64;  // bits of a node's provenance

absl::Status CheckOptions(const Coordinator::Options& options) {
  if (options.drafters.size() > kMaxDrafters) {
    return FieldError("drafters", absl::StrCat(options.drafters.size(),
                                               ", limit ", kMaxDrafters));
  }
  std::set<std::string> names;
  for (const DrafterHandle& drafter : options.drafters) {
    if (!names.insert(drafter.name).second) {
      return FieldError("drafters",
                        absl::StrCat("\"", drafter.name, "\" is named twice"));
    }
  }
  if (options.max_sessions < 1) {
    return FieldError("max_sessions",
                      absl::StrCat(options.max_sessions, " is below 1"));
  }
  if (options.max_queued < 0) {
    return FieldError("max_queued",
                      absl::StrCat(options.max_queued, " is negative"));
  }
  return absl::OkStatus();
}

std::vector<std::string> NamesOf(const std::vector<DrafterHandle>& drafters) {
  std::vector<std::string> names;
  for (const DrafterHandle& drafter : drafters) names.push_back(drafter.name);
  return names;
}

std::optional<RejectReason> RejectReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:  // another model
      return RejectReason::kInvalid;
    case absl::StatusCode::kResourceExhausted:
      return RejectReason::kQueueFull;
    case absl::StatusCode::kDeadlineExceeded:
      return RejectReason::kDeadline;
    default:
      return std::nullopt;
  }
}

FinishReason FinishReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
      return FinishReason::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return FinishReason::kDeadline;
    default:
      return FinishReason::kError;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(
    Options options) {
  RETURN_IF_ERROR(CheckOptions(options));
  Policies policies;
  for (const std::string& name : options.policies->Names()) {
    ASSIGN_OR_RETURN(policies[name], options.policies->Create(name));
  }
  return std::unique_ptr<Coordinator>(
      new Coordinator(std::move(options), std::move(policies)));
}

Coordinator::Coordinator(Options options, Policies policies)
    : options_(std::move(options)),
      policies_(std::move(policies)),
      metrics_(*options_.metrics, options_.model, NamesOf(options_.drafters)),
      verifier_{.endpoint = options_.verifier,
                .info = options_.verifier_info,
                .retry = options_.verifier_retry},
      retry_advice_(options_.max_sessions, options_.retry_after),
      tenants_(options_.metrics),
      tracer_(options_.tracing),
      record_(static_cast<int>(options_.drafters.size())),
      feature_budget_(options_.feature_limits, metrics_.features),
      environment_{.executor = options_.executor,
                   .verifier = &verifier_,
                   .record = &record_,
                   .feature_budget = &feature_budget_,
                   .retry_advice = &retry_advice_,
                   .metrics = &metrics_,
                   .journal = &journal_,
                   .draft_timeout = options_.draft_timeout,
                   .draft_ahead = options_.draft_ahead,
                   .log_requests = options_.log_requests,
                   .pace = options_.pace,
                   .retry_after = options_.retry_after},
      scope_(options_.executor) {
  for (size_t i = 0; i < options_.drafters.size(); ++i) {
    const DrafterMetrics& metrics = metrics_.drafter(static_cast<int>(i));
    drafters_.emplace_back(new DrafterPeer{
        .name = options_.drafters[i].name,
        .endpoint = options_.drafters[i].endpoint,
        .index = static_cast<int>(i),
        .info = options_.drafters[i].info != nullptr
                    ? options_.drafters[i].info
                    : [] { return std::nullopt; },
        .metrics = &metrics,
        .health = DrafterHealth(options_.drafter_timeouts_to_open, metrics),
        .settings = {.role = options_.drafters[i].role},
        .trusted = options_.drafters[i].trusted});
    drafters_.back()->ShowSettings();
  }
  if (!options_.warm_up_text.empty() && !drafters_.empty()) {
    StartWarmUp();
  } else {
    warm_.Notify();
  }
}

void Coordinator::StartWarmUp() {
  std::vector<DrafterPeer*> drafters;
  for (const auto& drafter : drafters_) drafters.push_back(drafter.get());
  warm_up_ = std::make_unique<WarmUp>(
      environment_, WarmUp::Options{.epoch = options_.epoch,
                                    .text = options_.warm_up_text,
                                    .limit = options_.warm_up_limit,
                                    .drafters = std::move(drafters),
                                    .plan =
                                        [this](GenerationRequest request) {
                                          return Plan(std::move(request));
                                        },
                                    .on_end = [this] { warm_.Notify(); }});
  scope_.Post([this] { warm_up_->Start(); });
}

Coordinator::~Coordinator() = default;

Coordinator::Ticket Coordinator::Start(GenerationRequest request,
                                       std::shared_ptr<TokenSink> sink) {
  const Ticket ticket =
      next_ticket_.fetch_add(static_cast<Ticket>(request.num_outputs));
  scope_.Post([this, arrival = Arrival{.ticket = ticket,
                                       .time = scope_.Now(),
                                       .request = std::move(request),
                                       .sink = std::move(sink)}]() mutable {
    Admit(std::move(arrival));
  });
  return ticket;
}

absl::Status Coordinator::CheckOpen(const std::string& tenant,
                                    int64_t num_coming) {
  LoadInfo load = Load();
  load.queued = num_coming + (tenants_.is_divided() ? tenants_.WaitingOf(tenant)
                                                    : load.queued);
  absl::Status status = CheckRoom(tenant, load, /*num_outputs=*/1);
  if (status.ok()) status = CheckVerifier(verifier_.info());
  if (status.ok()) {
    status = tenants_.TakeRequest(tenant, scope_.Now());
    if (!status.ok()) metrics_.Count(RejectReason::kQuota);
  }
  if (!status.ok()) CountEnd(status.code());
  return status;
}

void Coordinator::CountUnstarted(const absl::Status& status) {
  if (const auto reason = RejectReasonOf(status.code())) {
    metrics_.Count(*reason);
  }
  CountEnd(status.code());
}

// CountRequest belongs to the executor.
void Coordinator::CountEnd(absl::StatusCode code) {
  scope_.Post(
      [this, code] { metrics_.CountRequest(code, FinishReasonOf(code)); });
}

void Coordinator::Admit(Arrival arrival) {
  if (warm_up_ != nullptr) warm_up_->Stop();
  const std::string tenant = tenants_.NameOf(arrival.request.tenant);
  absl::Status room = CheckRoom(
      tenant,
      {.running = num_running_,
       .queued = tenants_.is_divided() ? queue_.size(tenant) : queue_.size(),
       .max_sessions = options_.max_sessions,
       .max_queued = options_.max_queued},
      arrival.request.num_running_outputs());
  if (room.ok() && tickets_.contains(arrival.request.request_id)) {
    metrics_.Count(RejectReason::kDuplicate);
    room = WithReason(
        absl::AlreadyExistsError(absl::StrCat(
            "request_id \"", arrival.request.request_id, "\" is live")),
        "REQUEST_ID_IN_USE");
  }
  if (!room.ok()) {
    Refuse(room, arrival);
    return;
  }
  absl::StatusOr<RequestPlan> plan = Plan(arrival.request);
  if (!plan.ok()) {
    Refuse(plan.status(), arrival);
    return;
  }
  Open(std::move(arrival), *std::move(plan));
  StartNext();
}

void Coordinator::Open(Arrival arrival, RequestPlan plan) {
  std::vector<DrafterPeer*> drafters;
  for (int index : plan.drafters) {
    DrafterPeer* const drafter = drafters_[index].get();
    const std::optional<DrafterInfo> info = drafter->info();
    const bool drafts =
        !info || !info->needs_grammar || plan.session.adjustments.grammar.any();
    if (drafts) drafters.push_back(drafter);
  }
  const GenerationRequest& request = arrival.request;
  const std::string tenant = tenants_.NameOf(plan.tenant);
  tenants_.Use(tenant, {.prompt = std::ssize(plan.session.prompt)},
               arrival.time);
  tickets_[request.request_id] = arrival.ticket;
  const auto trace = tracer_.Choose(plan.session.traceparent);
  int64_t first = 0;
  while (!request.Runs(first)) ++first;
  requests_[arrival.ticket] = {
      .id = request.request_id,
      .num_outputs = request.num_outputs,
      .num_live = request.num_running_outputs(),
      .first = arrival.ticket + static_cast<Ticket>(first)};
  for (int64_t output = first; output < request.num_outputs; ++output) {
    if (!request.Runs(output)) continue;
    const Ticket ticket = arrival.ticket + static_cast<Ticket>(output);
    Generation::Options options = {
        .output = {.sequence = {.coordinator_epoch = options_.epoch,
                                .number = ticket},
                   .number = output,
                   .arrival = arrival.time,
                   .deadline =
                       std::min(request.deadline,
                                arrival.time + options_.max_request_duration),
                   .plan = plan,
                   .share = {.tenant = tenant,
                             .weight = tenants_.WeightOf(tenant)},
                   .drafters = drafters},
        .trace = trace,
        .sink = arrival.sink,
        .on_finished = [this, ticket](const absl::Status& status) {
          OnFinished(ticket, status);
        }};
    SessionParams& session = options.output.plan.session;
    session.sampling.seed += static_cast<uint64_t>(output);
    if (output > 0) session.logprobs.prompt = std::nullopt;
    if (!plan.resumed.empty()) {
      session.resumed = plan.resumed[static_cast<size_t>(output)].tokens;
    }
    if (output == first && request.num_outputs > 1) {
      options.on_prefilled = [this, request = arrival.ticket] {
        OnPrefilled(request);
      };
    }
    const FairQueue::Place place = {arrival.time + absl::Seconds(plan.priority),
                                    ticket};
    live_[ticket] = {.request = arrival.ticket,
                     .tenant = tenant,
                     .place = place,
                     .generation = std::make_unique<Generation>(
                         &environment_, std::move(options))};
    queue_.Add(tenant, place);
    tenants_.AddLoad(tenant, {.waiting = 1});
  }
}

// The Generation is on the stack.
void Coordinator::OnPrefilled(Ticket request) {
  requests_.at(request).prefilled = true;
  scope_.Post([this] { StartNext(); });
}

// Where tenants share the queue, the part of one is never full of others'
// requests. Places to run go to the first request that arrives.
Coordinator::Room Coordinator::RoomFor(const std::string& tenant,
                                       const LoadInfo& load) const {
  if (!tenants_.is_divided()) {
    return {.places = load.max_sessions + load.max_queued,
            .taken = load.running + load.queued};
  }
  return {
      .places = load.max_sessions + tenants_.PlacesOf(tenant, load.max_queued),
      .taken = load.running + load.queued};
}

absl::Status Coordinator::CheckRoom(const std::string& tenant,
                                    const LoadInfo& load, int64_t num_outputs) {
  const auto [places, taken] = RoomFor(tenant, load);
  if (num_outputs > places) {
    return FieldError("n", absl::StrCat(num_outputs, " outputs; at most ",
                                        places, " can run and wait here"));
  }
  if (draining_) {
    metrics_.Count(RejectReason::kDraining);
    return WithRetryAfter(
        WithReason(absl::UnavailableError("draining"), "DRAINING"),
        options_.retry_after);
  }
  if (taken + num_outputs > places) {
    metrics_.Count(RejectReason::kQueueFull);
    tenants_.CountFull(tenant);
    return WithRetryAfter(WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                         load.running, " requests run, ",
                                         load.queued, " wait: full")),
                                     "QUEUE_FULL"),
                          retry_advice_.Next());
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckVerifier(
    const std::optional<VerifierInfo>& verifier) {
  if (verifier) return absl::OkStatus();
  metrics_.Count(RejectReason::kVerifierDown);
  return WithRetryAfter(
      WithReason(absl::UnavailableError("verifier not connected"),
                 "VERIFIER_AWAY"),
      options_.retry_after);
}

absl::StatusOr<RequestPlan> Coordinator::Plan(GenerationRequest request) {
  std::optional<VerifierInfo> verifier = verifier_.info();
  RETURN_IF_ERROR(CheckVerifier(verifier));
  absl::StatusOr<RequestPlan> plan =
      PlanRequest(std::move(request), {.verifier = *std::move(verifier),
                                       .drafters = NamesOf(options_.drafters),
                                       .policies = &policies_,
                                       .defaults = options_.defaults});
  if (!plan.ok()) metrics_.Count(RejectReason::kInvalid);
  return plan;
}

void Coordinator::Refuse(const absl::Status& status, const Arrival& arrival) {
  metrics_.CountRequest(status.code(), FinishReason::kError);
  for (int64_t i = 0; i < arrival.request.num_outputs; ++i) {
    if (!arrival.request.Runs(i)) continue;
    arrival.sink->OnFinish(
        status, {.output = i, .finish_reason = FinishReason::kError});
  }
}

void Coordinator::StartNext() {
  const auto is_ready = [this](Ticket waiting) {
    const Request& request = requests_.at(live_.at(waiting).request);
    return waiting == request.first || request.prefilled;
  };
  while (num_running_ < options_.max_sessions) {
    const std::optional<Ticket> next = queue_.Take(is_ready);
    if (!next) break;
    Live& live = live_.at(*next);
    ++num_running_;
    live.began = scope_.Now();
    live.charged = static_cast<double>(live.generation->most_tokens()) /
                   tenants_.WeightOf(live.tenant);
    queue_.Charge(live.tenant, live.charged);
    tenants_.AddLoad(live.tenant, {.waiting = -1, .running = 1});
    live.generation->Run();
  }
  ShowLoad();
}

void Coordinator::Cancel(Ticket ticket) {
  scope_.Post([this, ticket] {
    FinishRequest(ticket, absl::CancelledError("cancelled by the client"),
                  FinishReason::kCancelled);
  });
}

void Coordinator::Abort(std::string request_id,
                        absl::AnyInvocable<void(bool was_live) &&> done) {
  scope_.Post([this, request_id = std::move(request_id),
               done = std::move(done)]() mutable {
    const auto found = tickets_.find(request_id);
    const bool was_live = found != tickets_.end();
    if (was_live) {
      FinishRequest(found->second, absl::CancelledError("aborted"),
                    FinishReason::kCancelled);
    }
    std::move(done)(was_live);
  });
}

void Coordinator::FinishRequest(Ticket request, const absl::Status& status,
                                FinishReason reason) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const Ticket end = request + static_cast<Ticket>(found->second.num_outputs);
  for (Ticket ticket = request; ticket < end; ++ticket) {
    const auto live = live_.find(ticket);
    if (live != live_.end()) live->second.generation->Finish(status, reason);
  }
}

// The Generation is still on the stack, so it is kept until Settle runs.
void Coordinator::OnFinished(Ticket ticket, const absl::Status& status) {
  const auto found = live_.find(ticket);
  const Ticket request = found->second.request;
  if (found->second.generation->running()) {
    --num_running_;
    retry_advice_.PlaceFreed(scope_.Now() - found->second.began);
    ChargeUse(found->second);
  } else {
    queue_.Remove(found->second.tenant, found->second.place);
    tenants_.AddLoad(found->second.tenant, {.waiting = -1});
  }
  finished_.push_back(std::move(found->second.generation));
  live_.erase(found);
  if (--requests_.at(request).num_live == 0) {
    tickets_.erase(requests_.at(request).id);
    requests_.erase(request);
  } else if (!status.ok()) {
    FinishRequest(request, absl::CancelledError("another output failed"),
                  FinishReason::kCancelled);
  }
  ShowLoad();
  if (settling_) return;
  settling_ = true;
  scope_.Post([this] { Settle(); });
}

// Replaces what an output might have used by what it has used.
void Coordinator::ChargeUse(const Live& live) {
  const Generation& generation = *live.generation;
  const auto used = static_cast<double>(generation.num_tokens()) /
                    tenants_.WeightOf(live.tenant);
  queue_.Charge(live.tenant, used - live.charged);
  tenants_.Use(live.tenant, {.answer = generation.num_generated()},
               scope_.Now());
  tenants_.AddLoad(live.tenant, {.running = -1});
}

void Coordinator::Settle() {
  settling_ = false;
  finished_.clear();
  StartNext();
  TellIfIdle();
}

void Coordinator::Drain(absl::AnyInvocable<void() &&> idle) {
  scope_.Post([this, idle = std::move(idle)]() mutable {
    draining_ = true;
    when_idle_.push_back(std::move(idle));
    TellIfIdle();
  });
}

void Coordinator::Shutdown(absl::AnyInvocable<void() &&> done) {
  scope_.Post([this, done = std::move(done)]() mutable {
    draining_ = true;
    if (warm_up_ != nullptr) warm_up_->Stop();
    std::vector<Ticket> tickets;
    for (const auto& [ticket, request] : requests_) tickets.push_back(ticket);
    for (Ticket ticket : tickets) {
      FinishRequest(ticket, absl::UnavailableError("shutting down"),
                    FinishReason::kError);
    }
    when_idle_.push_back(std::move(done));
    TellIfIdle();
  });
}

// Must be the last call of a task: a callback may destroy this object.
void Coordinator::TellIfIdle() {
  if (!live_.empty() || settling_) return;
  for (auto& idle : std::exchange(when_idle_, {})) std::move(idle)();
}

void Coordinator::ShowLoad() {
  metrics_.requests.in_flight.Set(static_cast<double>(num_running_));
  metrics_.requests.sessions_open.Set(static_cast<double>(num_running_));
  metrics_.requests.queued.Set(static_cast<double>(queue_.size()));
  num_queued_ = static_cast<int64_t>(queue_.size());
}

Coordinator::LoadInfo Coordinator::Load() const {
  return {.running = num_running_,
          .queued = num_queued_,
          .max_sessions = options_.max_sessions,
          .max_queued = options_.max_queued};
}

}  // namespace espalier::coordinator
