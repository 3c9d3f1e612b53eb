#ifndef ESPALIER_COORDINATOR_PEERS_DRAFTER_SETTINGS_H_
#define ESPALIER_COORDINATOR_PEERS_DRAFTER_SETTINGS_H_

#include <atomic>

namespace espalier::coordinator {

enum class DrafterRole {
  kOff,     // not asked
  kShadow,  // asked and measured; never waited for, never verified
  kActive,
};

// An operator's settings of a drafter.
struct DrafterSettings {
  static constexpr double kMinWeight = 0.01, kMaxWeight = 100;

  DrafterRole role = DrafterRole::kActive;
  double weight = 1;  // of its tokens where nodes are chosen
};

// DrafterSettings while the drafter is in service: written on the executor,
// read by any thread; each field is consistent by itself only.
struct CurrentSettings {
  std::atomic<DrafterRole> role = DrafterRole::kActive;
  std::atomic<double> weight = 1;

  DrafterSettings Get() const { return {.role = role, .weight = weight}; }
  void Set(const DrafterSettings& settings) {
    role = settings.role;
    weight = settings.weight;
  }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_DRAFTER_SETTINGS_H_
