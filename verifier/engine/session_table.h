#ifndef ESPALIER_VERIFIER_ENGINE_SESSION_TABLE_H_
#define ESPALIER_VERIFIER_ENGINE_SESSION_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "common/speculation/messages.h"
#include "verifier/engine/pass_company.h"
#include "verifier/engine/session.h"

namespace espalier::verifier {

// The open sessions, by sequence, with their places in the engine's queues.
// Used on the engine's executor.
class SessionTable {
 public:
  // `model` gives each session its cache; `clock` is that of the places. Both
  // must outlive the table.
  SessionTable(LanguageModel& model, const Executor& clock,
               int64_t max_sessions)
      : model_(model), clock_(clock), max_sessions_(max_sessions) {}

  // Null: there is none.
  Session* Find(SequenceId id) const;
  int64_t size() const { return static_cast<int64_t>(sessions_.size()); }

  // Returns which session has to be erased before one of the coordinator with
  // this epoch can be opened; unset: none. When all are open, the coordinator
  // with the most sessions loses one to a coordinator with fewer: its least
  // recently used session without a request. So no coordinator can occupy all
  // of them; it sends the lost session's tokens again. RESOURCE_EXHAUSTED:
  // there is no such session.
  absl::StatusOr<std::optional<SequenceId>> GivesWayTo(uint64_t epoch) const;

  // Opens a session with a cache of its own. REQUIRES: there is none, and
  // GivesWayTo returned none. delay: by its priority.
  Session& Open(const SequenceUpdate& update, absl::Duration delay);
  // Releases the session's cache. REQUIRES: it has no request.
  void Erase(SequenceId id);

  // Returns the next place in a queue of sessions with this delay.
  Place NextPlace(absl::Duration delay);

  // In any order.
  std::vector<Session*> All() const;
  std::vector<Session*> WithRequests() const;
  std::vector<Session*> ByAge() const;  // oldest first
  // Returns the sessions without a request that were not used for `ttl`.
  std::vector<SequenceId> IdleFor(absl::Duration ttl) const;
  // Returns the sessions between two rounds, with when their requests are
  // expected.
  std::vector<AwaitedCompany> Awaited() const;

  // Answers the requests whose deadline has passed.
  void AnswerLate();

 private:
  LanguageModel& model_;
  const Executor& clock_;
  const int64_t max_sessions_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Session>> sessions_;
  uint64_t next_place_ = 1;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_SESSION_TABLE_H_
