#ifndef ESPALIER_VERIFIER_PLAN_ROOM_H_
#define ESPALIER_VERIFIER_PLAN_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// What one sequence holds and needs of the K/V pool, in tokens.
struct RoomClaim {
  int64_t held = 0;
  bool waits = false;     // has a request; `next` and `expected` are for it
  int64_t next = 0;       // to hold for its next pass
  int64_t expected = 0;   // to hold before long; >= next
  bool admitted = false;  // may hold room
  bool dormant = false;   // no request for some time: its room may be taken
};

// Indices into the claims, each list oldest first.
struct RoomPlan {
  std::vector<size_t> admitted;  // from now on
  // lose all their room and are not admitted
  std::vector<size_t> preempted = {};
  std::vector<size_t> runs = {};  // have room for their next pass
};

// Divides the pool among sequences, `claims`, oldest first.
//
// A sequence is admitted when its expected room fits beside that of the other
// admitted sequences, so that a sequence that starts or restarts runs for a
// while before any must be preempted. A sequence alone is always admitted. No
// sequence overtakes an older one that waits for admission.
//
// Room for the next pass goes to the oldest first. If it is short, dormant
// sequences are preempted, then younger ones, the youngest first. A sequence
// that cannot get enough this way keeps what it holds and waits. So the oldest
// waiting sequence always proceeds, and every preempted sequence becomes the
// oldest eventually.
//
// REQUIRES: no claim expects more than `pool`. `free`: tokens of room that no
// sequence holds.
RoomPlan PlanRoom(absl::Span<const RoomClaim> claims, int64_t pool,
                  int64_t free);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_PLAN_ROOM_H_
