#ifndef ESPALIER_VERIFIER_ENGINE_ROOM_SHARES_H_
#define ESPALIER_VERIFIER_ENGINE_ROOM_SHARES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/speculation/messages.h"
#include "verifier/engine/plan_room.h"

namespace espalier::verifier {

// Sets `beyond_share` of each claim; `tenants` has an element for each.
// `claims`: oldest first; `pool`: all of the K/V pool, in the claims' unit.
//
// The pool is divided by weight among the tenants that have a sequence which is
// not dormant. Their sequences take their parts, oldest first, and what does
// not fit any more is beyond its share. The oldest sequence of a tenant never
// is, so that each tenant proceeds. Of a single tenant none is.
void FindShares(absl::Span<RoomClaim> claims,
                absl::Span<const TenantShare* const> tenants, int64_t pool);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_ROOM_SHARES_H_
