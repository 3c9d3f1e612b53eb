#include "coordinator/coordinator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/spec/request_errors.h"

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

void ShowSettings(const DrafterPeer& peer) {
  peer.metrics->role.Set(static_cast<double>(peer.settings.role.load()));
  peer.metrics->weight.Set(peer.settings.weight);
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
      verifier_{.endpoint = options_.verifier, .info = options_.verifier_info},
      record_(static_cast<int>(options_.drafters.size())),
      feature_budget_(options_.feature_limits, metrics_.features),
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
    ShowSettings(*drafters_.back());
  }
}

Coordinator::~Coordinator() = default;

Coordinator::Ticket Coordinator::Start(GenerationRequest request,
                                       std::unique_ptr<TokenSink> sink) {
  const Ticket ticket = next_ticket_.fetch_add(1);
  scope_.Post([this, arrival = Arrival{.ticket = ticket,
                                       .time = scope_.Now(),
                                       .request = std::move(request),
                                       .sink = std::move(sink)}]() mutable {
    Admit(std::move(arrival));
  });
  return ticket;
}

absl::Status Coordinator::CheckOpen() {
  absl::Status status = CheckRoom(Load());
  if (status.ok()) status = CheckVerifier(verifier_.info());
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
  absl::Status room = CheckRoom({.running = num_running_,
                                 .queued = static_cast<int64_t>(queue_.size()),
                                 .max_sessions = options_.max_sessions,
                                 .max_queued = options_.max_queued});
  if (room.ok() && tickets_.contains(arrival.request.request_id)) {
    metrics_.Count(RejectReason::kDuplicate);
    room = absl::AlreadyExistsError(absl::StrCat(
        "request_id \"", arrival.request.request_id, "\" is live"));
  }
  if (!room.ok()) {
    Refuse(room, arrival);
    return;
  }
  const std::string request_id = arrival.request.request_id;
  const absl::Time deadline = std::min(
      arrival.request.deadline, arrival.time + options_.max_request_duration);
  absl::StatusOr<RequestPlan> plan = Plan(std::move(arrival.request));
  if (!plan.ok()) {
    Refuse(plan.status(), arrival);
    return;
  }
  std::vector<DrafterPeer*> drafters;
  for (int index : plan->drafters) {
    DrafterPeer* const drafter = drafters_[index].get();
    const std::optional<DrafterInfo> info = drafter->info();
    const bool drafts = !info || !info->needs_grammar ||
                        plan->session.adjustments.grammar.any();
    if (drafts) drafters.push_back(drafter);
  }
  const Ticket ticket = arrival.ticket;
  tickets_[request_id] = ticket;
  live_[ticket] = {
      .request_id = request_id,
      .generation = std::make_unique<Generation>(Generation::Options{
          .executor = options_.executor,
          .sequence = {.coordinator_epoch = options_.epoch, .number = ticket},
          .arrival = arrival.time,
          .deadline = deadline,
          .plan = *std::move(plan),
          .drafters = std::move(drafters),
          .verifier = &verifier_,
          .verifier_retry = options_.verifier_retry,
          .draft_timeout = options_.draft_timeout,
          .draft_ahead = options_.draft_ahead,
          .feature_budget = &feature_budget_,
          .retry_after = options_.retry_after,
          .record = &record_,
          .metrics = &metrics_,
          .journal = &journal_,
          .sink = std::move(arrival.sink),
          .on_finished = [this, ticket] { OnFinished(ticket); }})};
  queue_.push_back(ticket);
  StartNext();
}

absl::Status Coordinator::CheckRoom(const LoadInfo& load) {
  if (draining_) {
    metrics_.Count(RejectReason::kDraining);
    return WithRetryAfter(absl::UnavailableError("draining"),
                          options_.retry_after);
  }
  if (load.running >= load.max_sessions && load.queued >= load.max_queued) {
    metrics_.Count(RejectReason::kQueueFull);
    return WithRetryAfter(
        absl::ResourceExhaustedError(absl::StrCat(
            load.running, " requests run, ", load.queued, " wait: full")),
        options_.retry_after);
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckVerifier(
    const std::optional<VerifierInfo>& verifier) {
  if (verifier) return absl::OkStatus();
  metrics_.Count(RejectReason::kVerifierDown);
  return WithRetryAfter(absl::UnavailableError("verifier not connected"),
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
  arrival.sink->OnFinish(status, {.finish_reason = FinishReason::kError});
}

void Coordinator::StartNext() {
  while (!queue_.empty() && num_running_ < options_.max_sessions) {
    const Ticket ticket = queue_.front();
    queue_.pop_front();
    ++num_running_;
    live_.at(ticket).generation->Run();
  }
  ShowLoad();
}

void Coordinator::Cancel(Ticket ticket) {
  scope_.Post([this, ticket] {
    FinishLive(ticket, absl::CancelledError("cancelled by the client"),
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
      FinishLive(found->second, absl::CancelledError("aborted"),
                 FinishReason::kCancelled);
    }
    std::move(done)(was_live);
  });
}

void Coordinator::FinishLive(Ticket ticket, const absl::Status& status,
                             FinishReason reason) {
  const auto found = live_.find(ticket);
  if (found != live_.end()) found->second.generation->Finish(status, reason);
}

// The Generation is still on the stack, so it is kept until Settle runs.
void Coordinator::OnFinished(Ticket ticket) {
  const auto found = live_.find(ticket);
  tickets_.erase(found->second.request_id);
  if (found->second.generation->running()) {
    --num_running_;
  } else {
    queue_.erase(std::find(queue_.begin(), queue_.end(), ticket));
  }
  finished_.push_back(std::move(found->second.generation));
  live_.erase(found);
  ShowLoad();
  if (settling_) return;
  settling_ = true;
  scope_.Post([this] { Settle(); });
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
    std::vector<Ticket> tickets;
    for (const auto& [ticket, live] : live_) tickets.push_back(ticket);
    for (Ticket ticket : tickets) {
      FinishLive(ticket, absl::UnavailableError("shutting down"),
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

void Coordinator::SetSettings(SettingsChange change,
                              Done<DrafterSettings> done) {
  scope_.Post(
      [this, change = std::move(change), done = std::move(done)]() mutable {
        std::move(done)(Change(change));
      });
}

absl::StatusOr<DrafterSettings> Coordinator::Change(
    const SettingsChange& change) {
  const auto peer =
      std::find_if(drafters_.begin(), drafters_.end(),
                   [&](const auto& d) { return d->name == change.drafter; });
  if (peer == drafters_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no drafter \"", change.drafter, "\""));
  }
  const DrafterSettings before = (*peer)->settings.Get();
  const double weight = change.weight.value_or(before.weight);
  if (!(weight >= DrafterSettings::kLeastWeight &&
        weight <= DrafterSettings::kMostWeight)) {
    return FieldError(
        "weight",
        absl::StrCat(weight, " is not in ", DrafterSettings::kLeastWeight,
                     " .. ", DrafterSettings::kMostWeight));
  }
  (*peer)->settings.Set(
      {.role = change.role.value_or(before.role), .weight = weight});
  ShowSettings(**peer);
  return (*peer)->settings.Get();
}

std::vector<Coordinator::DrafterStatus> Coordinator::Drafters() const {
  std::vector<DrafterStatus> statuses;
  for (const auto& drafter : drafters_) {
    const DrafterCounts& counts = drafter->counts;
    statuses.push_back({.name = drafter->name,
                        .up = drafter->health.up(),
                        .circuit_open = !drafter->health.worth_waiting_for(),
                        .proposed_tokens = counts.proposed,
                        .accepted_tokens = counts.accepted,
                        .uniquely_accepted_tokens = counts.uniquely_accepted,
                        .settings = drafter->settings.Get()});
  }
  return statuses;
}

}  // namespace espalier::coordinator
