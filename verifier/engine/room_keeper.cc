#include "verifier/engine/room_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/obs/log.h"
#include "verifier/engine/room_shares.h"
#include "verifier/engine/session_part.h"

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

RoomKeeper::RoomKeeper(const Parts& parts, int64_t batch_rows)
    : parts_(parts),
      pass_rows_(std::min(batch_rows, parts.model.info().max_chain_rows)) {}

std::vector<Session*> RoomKeeper::TakeRoom() {
  const std::vector<Session*> in_order = InOrder();
  Admit(in_order);
  std::vector<Session*> running;
  for (bool again = true; again;) {
    const KvUsage kv = parts_.model.kv_usage();
    const RoomPlan plan =
        PlanRoom(ClaimsOf(in_order), kv.total_tokens - kv.used_tokens);
    for (size_t i : plan.preempted) Preempt(*in_order[i]);
    for (size_t i : plan.runs) running.push_back(in_order[i]);
    again = running.empty() && !plan.preempted.empty();
  }
  std::sort(running.begin(), running.end(),
            [](Session* a, Session* b) { return a->job->turn < b->job->turn; });
  CountWaits(running);
  return running;
}

std::vector<Session*> RoomKeeper::InOrder() const {
  std::vector<Session*> sessions = parts_.sessions.ByAge();
  std::vector<RoomClaim> claims = ClaimsOf(sessions);
  std::vector<const TenantShare*> tenants;
  for (const Session* session : sessions) tenants.push_back(&session->share);
  FindShares(absl::MakeSpan(claims), tenants,
             parts_.model.kv_usage().total_tokens);
  for (size_t i = 0; i < sessions.size(); ++i) {
    sessions[i]->beyond_share = claims[i].beyond_share;
  }
  std::stable_partition(sessions.begin(), sessions.end(),
                        [](const Session* s) { return !s->beyond_share; });
  return sessions;
}

// Sessions take what others share only once they are admitted.
void RoomKeeper::Admit(absl::Span<Session* const> in_order) {
  const std::vector<RoomClaim> claims = ClaimsOf(in_order);
  const KvUsage kv = parts_.model.kv_usage();
  int64_t not_shared = kv.total_tokens - kv.used_tokens;
  for (const RoomClaim& claim : claims) not_shared += claim.held;
  for (size_t i : PlanAdmission(claims, not_shared)) {
    in_order[i]->admitted = true;
  }
  for (Session* session : in_order) {
    if (session->admitted && session->job != nullptr) {
      parts_.prefixes.Share(*session);
    }
  }
}

std::vector<RoomClaim> RoomKeeper::ClaimsOf(
    absl::Span<Session* const> sessions) const {
  std::vector<RoomClaim> claims;
  for (const Session* session : sessions) claims.push_back(ClaimOf(*session));
  return claims;
}

RoomClaim RoomKeeper::ClaimOf(const Session& session) const {
  const LanguageModel& model = parts_.model;
  const KvGroups& groups = model.info().kv_groups;
  int64_t pass_rows = pass_rows_;
  RoomClaim claim = {.held = model.HeldRoom(session.cache),
                     .shared = model.SharedRoom(session.cache),
                     .waits = session.job != nullptr,
                     .admitted = session.admitted,
                     .beyond_share = session.beyond_share};
  const int64_t length = static_cast<int64_t>(session.tokens.size());
  int64_t expected = std::min(length + kExpectedTokens, session.max_length);
  if (claim.waits) {
    const PassWork work = RemainingWork(session, model);
    const int64_t rows = work.prompt_rows + work.tree_rows;
    const int64_t cached = model.Length(session.cache);
    pass_rows = std::max(pass_rows, work.tree_rows);
    const int64_t next = std::min(rows, pass_rows);
    claim.next = groups.RoomFor(cached + next, next) - claim.shared;
    expected = std::max(expected, cached + rows);
  } else {
    claim.dormant = parts_.clock.Now() - session.last_used >= kDormantAfter;
  }
  claim.expected =
      groups.RoomFor(std::min(expected, model.info().max_context), pass_rows) -
      claim.shared;
  if (claim.waits && !claim.admitted) {
    const int64_t others = parts_.prefixes.RoomOfOthers(session);
    claim.next -= others;
    claim.expected -= others;
  }
  return claim;
}

void RoomKeeper::CountWaits(absl::Span<Session* const> with_room) const {
  const absl::Time now = parts_.clock.Now();
  for (Session* session : parts_.sessions.WithRequests()) {
    Job& job = *session->job;
    if (std::find(with_room.begin(), with_room.end(), session) ==
        with_room.end()) {
      if (!job.without_room_since) job.without_room_since = now;
    } else if (job.without_room_since) {
      job.timings.room += now - *std::exchange(job.without_room_since, {});
    }
  }
}

void RoomKeeper::Preempt(Session& session) {
  LogShortRoom(session);
  parts_.metrics.preemptions.Increment();
  session.was_preempted = true;
  parts_.prefixes.Share(session);
  parts_.model.Release(session.cache);
  session.cache = parts_.model.NewSequence();
  session.admitted = false;
}

void RoomKeeper::LogShortRoom(const Session& session) {
  const absl::Time now = parts_.clock.Now();
  if (now - room_was_short_ < kLogRoomEvery) return;
  room_was_short_ = now;
  const int64_t pool = parts_.model.info().kv_groups.TokensIn(
      parts_.model.kv_usage().total_tokens);
  LogWarning(absl::StrCat("the K/V pool of ", pool,
                          " tokens is short: a sequence of ",
                          session.tokens.size(),
                          " gives way to another and is computed again later; ",
                          parts_.sessions.size(), " are open"));
}

absl::Time RoomKeeper::WhenRoomMayCome() const {
  absl::Time when = parts_.clock.Now() + kDormantAfter;
  for (const Session* session : parts_.sessions.WithRequests()) {
    when = std::min(when, session->job->deadline);
  }
  return when;
}

}  // namespace espalier::verifier
