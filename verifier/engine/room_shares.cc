#include "verifier/engine/room_shares.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"

namespace espalier::verifier {
namespace {

struct Part {
  double weight = 0;  // the latest that was said
  double taken = 0;
  bool has_oldest = false;
};

}  // namespace

void FindShares(absl::Span<RoomClaim> claims,
                absl::Span<const TenantShare* const> tenants, int64_t pool) {
  ESPALIER_CHECK(claims.size() == tenants.size());
  absl::flat_hash_map<absl::string_view, Part> parts;
  for (size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].dormant) continue;
    parts[tenants[i]->tenant].weight = tenants[i]->weight;
  }
  double weights = 0;
  for (const auto& [tenant, part] : parts) weights += part.weight;
  for (size_t i = 0; i < claims.size(); ++i) {
    RoomClaim& claim = claims[i];
    claim.beyond_share = false;
    if (claim.dormant || parts.size() == 1) continue;
    Part& part = parts[tenants[i]->tenant];
    part.taken += static_cast<double>(std::max(claim.held, claim.expected));
    claim.beyond_share =
        part.has_oldest &&
        part.taken * weights > part.weight * static_cast<double>(pool);
    part.has_oldest = true;
  }
}

}  // namespace espalier::verifier
