#include "verifier/engine/plan_room.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Grant preempts dormant claims, then claims younger than `for_whom`, until
// `missing` is free. If that is not enough, it preempts none, or all where what
// they share may be enough.
class Preemption {
 public:
  Preemption(absl::Span<const RoomClaim> claims, int64_t free)
      : claims_(claims), free_(free), gone_(claims.size()) {}

  bool is_gone(size_t claim) const { return gone_[claim]; }

  bool Grant(size_t for_whom, int64_t missing) {
    std::vector<size_t> victims;
    int64_t found = free_;
    int64_t shared = 0;
    for (const bool dormant : {true, false}) {
      for (size_t i = claims_.size(); i-- > 0 && found < missing;) {
        const RoomClaim& claim = claims_[i];
        if (gone_[i] || claim.dormant != dormant) continue;
        if (claim.held + claim.shared == 0) continue;
        if (!dormant && i <= for_whom) continue;
        victims.push_back(i);
        found += claim.held;
        shared += claim.shared;
      }
    }
    if (found + shared < missing) return false;
    for (size_t victim : victims) gone_[victim] = true;
    const bool enough = found >= missing;
    free_ = enough ? found - missing : 0;
    return enough;
  }

 private:
  const absl::Span<const RoomClaim> claims_;
  int64_t free_;
  std::vector<bool> gone_;
};

}  // namespace

std::vector<size_t> PlanAdmission(absl::Span<const RoomClaim> claims,
                                  int64_t pool) {
  int64_t expected = 0;
  bool is_alone = true;
  for (const RoomClaim& claim : claims) {
    if (!claim.admitted || claim.dormant) continue;
    expected += std::max(claim.held, claim.expected);
    is_alone = false;
  }
  std::vector<size_t> admitted;
  for (size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].admitted || !claims[i].waits) continue;
    expected += claims[i].expected;
    if (expected > pool && !is_alone) break;
    admitted.push_back(i);
    is_alone = false;
  }
  return admitted;
}

RoomPlan PlanRoom(absl::Span<const RoomClaim> claims, int64_t free) {
  RoomPlan plan;
  Preemption room(claims, free);
  for (size_t i = 0; i < claims.size(); ++i) {
    if (!claims[i].admitted || !claims[i].waits || room.is_gone(i)) continue;
    const int64_t missing =
        std::max<int64_t>(claims[i].next - claims[i].held, 0);
    if (room.Grant(i, missing)) plan.runs.push_back(i);
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    if (room.is_gone(i)) plan.preempted.push_back(i);
  }
  return plan;
}

}  // namespace espalier::verifier
