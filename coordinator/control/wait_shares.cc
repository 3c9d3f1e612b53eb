#include "coordinator/control/wait_shares.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace espalier::coordinator {
namespace {

struct CpuGroup {
  absl::Duration waited;
  absl::Duration compute;
};

bool IsAwaited(const DrafterReturn& r) {
  return r.waited && r.attention == DraftCall::Attention::kAwaited;
}

}  // namespace

std::vector<std::optional<double>> WaitShares(
    absl::Span<const DrafterReturn> returns) {
  std::map<uint64_t, CpuGroup> cpu_groups;
  for (const DrafterReturn& r : returns) {
    if (!IsAwaited(r)) continue;
    CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    cpu_group.waited = std::max(cpu_group.waited, *r.waited);
    cpu_group.compute += r.compute;
  }
  std::vector<std::optional<double>> shares(returns.size());
  for (size_t i = 0; i < returns.size(); ++i) {
    const DrafterReturn& r = returns[i];
    if (!IsAwaited(r)) continue;
    const CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    const bool alone =
        r.cpu_group == 0 || cpu_group.compute <= absl::ZeroDuration();
    shares[i] = absl::ToDoubleSeconds(
        alone ? *r.waited
              : cpu_group.waited *
                    absl::FDivDuration(r.compute, cpu_group.compute));
  }
  return shares;
}

}  // namespace espalier::coordinator
