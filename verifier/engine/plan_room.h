#ifndef ESPALIER_VERIFIER_ENGINE_PLAN_ROOM_H_
#define ESPALIER_VERIFIER_ENGINE_PLAN_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// Says what one sequence holds and needs of the K/V pool, in tokens.
struct RoomClaim {
  int64_t held = 0;       // alone
  int64_t shared = 0;     // together with others, beside `held`
  bool waits = false;     // has a request; `next` and `expected` are for it
  int64_t next = 0;       // to hold alone for its next pass
  int64_t expected = 0;   // to hold alone before long; >= next
  bool admitted = false;  // may hold room
  bool dormant = false;   // no request for some time: its room may be taken
  // Its tenant has its part of the pool without it (room_shares.h): it gives
  // way to the sequences that come before it.
  bool beyond_share = false;
};

// Returns the sequences, indices into `claims`, that are admitted from now on.
// `claims`: those within their tenants' shares, then the others, each oldest
// first; `pool`: the room that they do not share.
//
// A sequence is admitted when its expected room fits beside that of the other
// admitted sequences, those aside that give way to it because they are beyond
// their share. So a sequence that starts or restarts runs for a while before
// any must be preempted. A sequence alone is always admitted. No sequence
// overtakes an earlier one that waits for admission.
std::vector<size_t> PlanAdmission(absl::Span<const RoomClaim> claims,
                                  int64_t pool);

// Indices into the claims, each list in their order.
struct RoomPlan {
  std::vector<size_t> preempted = {};  // lose all their room and the admission
  std::vector<size_t> runs = {};       // have room for their next pass
};

// Divides `free`, the room that no sequence holds, among the admitted sequences
// of `claims`, which are ordered as for PlanAdmission.
//
// Room for the next pass goes to the first in that order. If it is short,
// dormant sequences are preempted, then those that come later, the last one
// first. A sequence that cannot get enough this way keeps what it holds and
// waits. So the first waiting sequence always proceeds. Every preempted
// sequence becomes the oldest of its tenant eventually, which is within its
// share, and then the first of all.
//
// How much of the room that sequences share comes free is known when they have
// given way. If it may be enough, they do, and what they gave way for is not
// among `runs`. So if something is preempted and nothing runs, plan again.
//
// REQUIRES: no claim expects more than the pool.
RoomPlan PlanRoom(absl::Span<const RoomClaim> claims, int64_t free);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_PLAN_ROOM_H_
