#include "verifier/engine/session_table.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier::verifier {

Session* SessionTable::Find(SequenceId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

absl::StatusOr<std::optional<SequenceId>> SessionTable::GivesWayTo(
    uint64_t epoch) const {
  if (size() < max_sessions_) return std::nullopt;
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
        "all ", max_sessions_, " sessions of the verifier are open"));
  }
  return oldest;
}

Session& SessionTable::Open(const SequenceUpdate& update,
                            absl::Duration delay) {
  auto session = std::make_unique<Session>();
  session->delay = delay;
  session->age = NextPlace(delay);
  session->cache = model_.NewSequence();
  session->salt = update.cache_salt;
  return *(sessions_[update.sequence] = std::move(session));
}

void SessionTable::Erase(SequenceId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  model_.Release(found->second->cache);
  sessions_.erase(found);
}

Place SessionTable::NextPlace(absl::Duration delay) {
  return {clock_.Now() + delay, next_place_++};
}

std::vector<Session*> SessionTable::All() const {
  std::vector<Session*> all;
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  return all;
}

std::vector<Session*> SessionTable::WithRequests() const {
  std::vector<Session*> waiting = All();
  std::erase_if(waiting, [](const Session* s) { return s->job == nullptr; });
  return waiting;
}

std::vector<Session*> SessionTable::ByAge() const {
  std::vector<Session*> all = All();
  std::sort(all.begin(), all.end(),
            [](const Session* a, const Session* b) { return a->age < b->age; });
  return all;
}

std::vector<SequenceId> SessionTable::IdleFor(absl::Duration ttl) const {
  std::vector<SequenceId> idle;
  for (const auto& [id, session] : sessions_) {
    if (session->job == nullptr && clock_.Now() - session->last_used >= ttl) {
      idle.push_back(id);
    }
  }
  return idle;
}

std::vector<AwaitedCompany> SessionTable::Awaited() const {
  const absl::Time now = clock_.Now();
  std::vector<AwaitedCompany> awaited;
  for (const auto& [id, session] : sessions_) {
    if (session->job != nullptr) continue;
    awaited.push_back(
        {.due = session->return_time.Remaining(now - session->answered),
         .rows = session->answered_rows});
  }
  return awaited;
}

void SessionTable::AnswerLate() {
  const absl::Time now = clock_.Now();
  for (Session* session : WithRequests()) {
    if (now < session->job->deadline) continue;
    session->last_used = now;
    session->Answer(absl::DeadlineExceededError(
        "the deadline passed while the request waited"));
  }
}

}  // namespace espalier::verifier
