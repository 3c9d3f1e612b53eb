#include "verifier/engine/plan_room.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Grant preempts dormant claims, then claims that come after `for_whom`, until
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

struct Expected {
  int64_t sequences = 0;
  int64_t room = 0;

  void Add(int64_t of_sequence) {
    ++sequences;
    room += of_sequence;
  }
};

}  // namespace

std::vector<size_t> PlanAdmission(absl::Span<const RoomClaim> claims,
                                  int64_t pool) {
  Expected all, within;  // the admitted ones; those of them within their share
  const auto add = [&](const RoomClaim& claim) {
    const int64_t room = std::max(claim.held, claim.expected);
    all.Add(room);
    if (!claim.beyond_share) within.Add(room);
  };
  for (const RoomClaim& claim : claims) {
    if (claim.admitted && !claim.dormant) add(claim);
  }
  std::vector<size_t> admitted;
  for (size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].admitted || !claims[i].waits) continue;
    const Expected& others = claims[i].beyond_share ? all : within;
    if (others.sequences > 0 && others.room + claims[i].expected > pool) break;
    admitted.push_back(i);
    add(claims[i]);
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
