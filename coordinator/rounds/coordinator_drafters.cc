#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/speculation/request_errors.h"
#include "coordinator/rounds/coordinator.h"

// The drafters of the coordinator, as operators see and change them.

namespace espalier::coordinator {

void Coordinator::SetSettings(SettingsChange change,
                              Done<DrafterSettings> done) {
  scope_.Post(
      [this, change = std::move(change), done = std::move(done)]() mutable {
        std::move(done)(Change(change));
      });
}

absl::StatusOr<DrafterSettings> Coordinator::Change(
    const SettingsChange& change) {
  const auto peer =
      std::find_if(drafters_.begin(), drafters_.end(),
                   [&](const auto& d) { return d->name == change.drafter; });
  if (peer == drafters_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no drafter \"", change.drafter, "\""));
  }
  const DrafterSettings before = (*peer)->settings.Get();
  const double weight = change.weight.value_or(before.weight);
  if (!(weight >= DrafterSettings::kMinWeight &&
        weight <= DrafterSettings::kMaxWeight)) {
    return FieldError(
        "weight",
        absl::StrCat(weight, " is not in ", DrafterSettings::kMinWeight, " .. ",
                     DrafterSettings::kMaxWeight));
  }
  (*peer)->settings.Set(
      {.role = change.role.value_or(before.role), .weight = weight});
  (*peer)->ShowSettings();
  return (*peer)->settings.Get();
}

Coordinator::FeaturePath Coordinator::PathOf(const DrafterPeer& drafter,
                                             const FeatureRingInfo& ring) {
  const std::optional<DrafterInfo> info = drafter.info();
  if (!info || info->features.taps.empty()) return FeaturePath::kNone;
  return drafter.Reads(ring, *info) ? FeaturePath::kDeviceRing
                                    : FeaturePath::kBytes;
}

std::vector<Coordinator::DrafterStatus> Coordinator::Drafters() const {
  const std::optional<VerifierInfo> verifier = verifier_.info();
  const FeatureRingInfo ring = verifier ? verifier->ring : FeatureRingInfo();
  std::vector<DrafterStatus> statuses;
  for (const auto& drafter : drafters_) {
    const DrafterCounts& counts = drafter->counts;
    statuses.push_back({.name = drafter->name,
                        .up = drafter->health.up(),
                        .circuit_open = !drafter->health.worth_waiting_for(),
                        .proposed_tokens = counts.proposed,
                        .accepted_tokens = counts.accepted,
                        .uniquely_accepted_tokens = counts.uniquely_accepted,
                        .settings = drafter->settings.Get(),
                        .features = PathOf(*drafter, ring)});
  }
  return statuses;
}

}  // namespace espalier::coordinator
