#ifndef ESPALIER_VERIFIER_ENGINE_ROOM_KEEPER_H_
#define ESPALIER_VERIFIER_ENGINE_ROOM_KEEPER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "verifier/engine/plan_room.h"
#include "verifier/engine/session.h"
#include "verifier/engine/session_table.h"
#include "verifier/engine/shared_prefixes.h"
#include "verifier/engine/verifier_metrics.h"

namespace espalier::verifier {

// Divides the K/V pool among the sessions (plan_room.h). No request is refused
// for lack of room: requests wait for it, and younger sessions are preempted
// for older ones, those first whose tenants have more than their share. A
// preempted session keeps its tokens, from which its K/V is computed again, so
// its text does not change. Used on the engine's executor.
class RoomKeeper {
 public:
  // Names what it works on; all must outlive this object.
  struct Parts {
    LanguageModel& model;
    const Executor& clock;
    SessionTable& sessions;
    SharedPrefixes& prefixes;
    VerifierMetrics& metrics;
  };
  // batch_rows: of a pass for all sessions together, trees or prompts.
  RoomKeeper(const Parts& parts, int64_t batch_rows);

  // Returns the sessions with a waiting request and K/V room for its next pass,
  // in the order of the requests. Preempts other sessions where needed. Notes
  // in the requests how long they wait for room.
  std::vector<Session*> TakeRoom();

  // Returns when room may become free without a further request: when a
  // deadline passes, or a session becomes dormant.
  absl::Time WhenRoomMayCome() const;

 private:
  // Returns all sessions, those within their tenants' shares first, each by
  // age.
  std::vector<Session*> InOrder() const;
  void Admit(absl::Span<Session* const> in_order);
  std::vector<RoomClaim> ClaimsOf(absl::Span<Session* const> sessions) const;
  RoomClaim ClaimOf(const Session& session) const;
  void CountWaits(absl::Span<Session* const> with_room) const;
  void Preempt(Session& session);
  void LogShortRoom(const Session& session);

  const Parts parts_;
  const int64_t pass_rows_;
  absl::Time room_was_short_ = absl::InfinitePast();  // when that was logged
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_ROOM_KEEPER_H_
