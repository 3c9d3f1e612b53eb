#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/obs/log.h"
#include "verifier/engine/verify_engine.h"

// K/V room of the engine: which sessions have it, and which give way.

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

}  // namespace

// Returns the sessions with a waiting request and K/V room for its next pass,
// in the order of the requests. Preempts other sessions where needed.
std::vector<VerifyEngine::Session*> VerifyEngine::TakeRoom() {
  std::vector<Session*> by_age;
  for (const auto& [id, session] : sessions_) by_age.push_back(session.get());
  std::sort(by_age.begin(), by_age.end(),
            [](Session* a, Session* b) { return a->age < b->age; });
  AdmitToPool(by_age);
  std::vector<Session*> running;
  for (bool again = true; again;) {
    const KvUsage kv = model_->kv_usage();
    const RoomPlan plan =
        PlanRoom(ClaimsOf(by_age), kv.total_tokens - kv.used_tokens);
    for (size_t i : plan.preempted) Preempt(*by_age[i]);
    for (size_t i : plan.runs) running.push_back(by_age[i]);
    again = running.empty() && !plan.preempted.empty();
  }
  std::sort(running.begin(), running.end(),
            [](Session* a, Session* b) { return a->job->turn < b->job->turn; });
  return running;
}

// Sessions take what others share only once they are admitted.
void VerifyEngine::AdmitToPool(absl::Span<Session* const> by_age) {
  const std::vector<RoomClaim> claims = ClaimsOf(by_age);
  const KvUsage kv = model_->kv_usage();
  int64_t not_shared = kv.total_tokens - kv.used_tokens;
  for (const RoomClaim& claim : claims) not_shared += claim.held;
  for (size_t i : PlanAdmission(claims, not_shared)) {
    by_age[i]->admitted = true;
  }
  for (Session* session : by_age) {
    if (session->admitted && session->job != nullptr) Share(*session);
  }
}

std::vector<RoomClaim> VerifyEngine::ClaimsOf(
    absl::Span<Session* const> sessions) const {
  std::vector<RoomClaim> claims;
  for (const Session* session : sessions) claims.push_back(ClaimOf(*session));
  return claims;
}

RoomClaim VerifyEngine::ClaimOf(const Session& session) const {
  const ModelInfo& model = model_->info();
  const KvGroups& groups = model.kv_groups;
  int64_t pass_rows = std::min(pass_limits_.batch_rows, model.max_rows);
  RoomClaim claim = {.held = model_->HeldRoom(session.cache),
                     .shared = model_->SharedRoom(session.cache),
                     .waits = session.job != nullptr,
                     .admitted = session.admitted};
  const int64_t length = static_cast<int64_t>(session.tokens.size());
  int64_t expected = std::min(length + kExpectedTokens, session.max_length);
  if (claim.waits) {
    const PassWork work = RemainingWork(session);
    const int64_t rows = work.prompt_rows + work.tree_rows;
    const int64_t cached = model_->Length(session.cache);
    pass_rows = std::max(pass_rows, work.tree_rows);
    const int64_t next = std::min(rows, pass_rows);
    claim.next = groups.RoomFor(cached + next, next) - claim.shared;
    expected = std::max(expected, cached + rows);
  } else {
    claim.dormant = executor_->Now() - session.last_used >= kDormantAfter;
  }
  claim.expected =
      groups.RoomFor(std::min(expected, model.max_context), pass_rows) -
      claim.shared;
  if (claim.waits && !claim.admitted) {
    const int64_t others = RoomOfOthers(session);
    claim.next -= others;
    claim.expected -= others;
  }
  return claim;
}

void VerifyEngine::CountRoomWaits(absl::Span<Session* const> with_room) const {
  const absl::Time now = executor_->Now();
  for (Session* session : WithRequests()) {
    Job& job = *session->job;
    if (std::find(with_room.begin(), with_room.end(), session) ==
        with_room.end()) {
      if (!job.without_room_since) job.without_room_since = now;
    } else if (job.without_room_since) {
      job.timings.room += now - *std::exchange(job.without_room_since, {});
    }
  }
}

void VerifyEngine::Preempt(Session& session) {
  const absl::Time now = executor_->Now();
  if (now - room_was_short_ >= kLogRoomEvery) {
    room_was_short_ = now;
    LogWarning(
        absl::StrCat("the K/V pool of ", Memory().kv_tokens,
                     " tokens is short: a sequence of ", session.tokens.size(),
                     " gives way to an older one and is computed again later; ",
                     sessions_.size(), " are open"));
  }
  metrics_.preemptions.Increment();
  session.was_preempted = true;
  Share(session);
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

}  // namespace espalier::verifier
