#ifndef ESPALIER_COORDINATOR_PEERS_DRAFTER_PEER_H_
#define ESPALIER_COORDINATOR_PEERS_DRAFTER_PEER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/speculation/endpoints.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/peers/drafter_health.h"
#include "coordinator/peers/drafter_settings.h"

namespace espalier::coordinator {

// Token counts of one drafter over all sessions. Written on the executor, read
// by any thread; each number is consistent by itself only.
struct DrafterCounts {
  std::atomic<int64_t> proposed = 0;
  std::atomic<int64_t> accepted = 0;
  std::atomic<int64_t> uniquely_accepted = 0;
};

// One drafter, shared by all sessions. Owned by the Coordinator. Used on the
// executor; any thread may read `name`, `info`, `health`, `settings`, `counts`
// and `unreadable_ring`.
struct DrafterPeer {
  std::string name;
  DraftEndpoint* endpoint;
  int index;  // among all drafters of the coordinator
  // The drafter's self-description; nullopt: not known yet. Called on any
  // thread.
  std::function<std::optional<DrafterInfo>()> info;
  const DrafterMetrics* metrics;
  DrafterHealth health;
  CurrentSettings settings = {};
  bool trusted = false;  // whether its draft distributions are used
  DrafterCounts counts = {};
  // The ring that it could not read; 0: none.
  std::atomic<uint64_t> unreadable_ring = 0;

  // Returns true if it reads the target's features in that ring.
  bool Reads(const FeatureRingInfo& ring, const DrafterInfo& described) const {
    return ring.ReachedFrom(described.device_id) && unreadable_ring != ring.id;
  }
  // Sets the metrics of its settings.
  void ShowSettings() const {
    metrics->role.Set(static_cast<double>(settings.role.load()));
    metrics->weight.Set(settings.weight);
  }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_DRAFTER_PEER_H_
