#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "coordinator/peers/draft_fanout.h"

// What a session's drafters want of the target: features and ranks.

namespace espalier::coordinator {

// Asks for features also for drafters that are not called yet: a head that
// lacks the prompt's features could not draft well later.
void DraftFanout::WantFeatures() {
  bool are_sent = false;
  for (Branch& branch : branches_) {
    std::optional<DrafterInfo> info = branch.peer->info();
    branch.round.wants_ranks = info && info->ranks.any();
    if (!info || info->features.taps.empty()) continue;
    const FeatureRingInfo& ring = features_.ring().ring();
    if (features_.ring().Lacks(info->features)) branch.lacking_ring = ring.id;
    const bool is_stored =
        branch.lacking_ring != ring.id && branch.peer->Reads(ring, *info);
    FeatureContract& wanted =
        is_stored ? branch.round.stored_features : branch.round.sent_features;
    wanted = std::move(info->features);
    are_sent |= !is_stored;
    if (branch.peer->settings.role == DrafterRole::kOff) continue;
    if (is_stored) {
      features_.ring().Want(wanted);
    } else {
      features_.Want(wanted);
    }
  }
  if (!are_sent) features_.WantNone();
}

// The position before which no drafter that wants features lacks any.
int64_t DraftFanout::FeaturesHeldByAll() const {
  int64_t held = std::numeric_limits<int64_t>::max();
  for (const Branch& branch : branches_) {
    if (branch.link.quarantined() || branch.round.sent_features.taps.empty() ||
        branch.peer->settings.role == DrafterRole::kOff) {
      continue;
    }
    held = std::min(held, branch.link.features_end());
  }
  return held;
}

// The number before which no drafter that wants ranks lacks a row.
int64_t DraftFanout::RanksHeldByAll() const {
  int64_t held = std::numeric_limits<int64_t>::max();
  for (const Branch& branch : branches_) {
    if (branch.link.quarantined() || !branch.round.wants_ranks ||
        branch.peer->settings.role == DrafterRole::kOff) {
      continue;
    }
    held = std::min(held, branch.link.ranks_end());
  }
  return held;
}

RanksRequest DraftFanout::WantedRanks(bool greedy) const {
  RanksRequest wanted;
  for (const Branch& branch : branches_) {
    if (branch.peer->settings.role == DrafterRole::kOff) continue;
    const std::optional<DrafterInfo> info = branch.peer->info();
    if (!info) continue;
    const RankNeed& need = info->ranks;
    wanted.top = std::max(wanted.top, greedy ? need.greedy : need.sampled);
    wanted.prompt_rows = std::max(wanted.prompt_rows, need.prompt_rows);
  }
  return wanted;
}

// The features that the drafter may lack.
FeatureRows DraftFanout::NewFeatures(Branch& branch) {
  FeatureRows features =
      features_.From(branch.link.features_end(), branch.round.sent_features);
  branch.peer->metrics->feature_bytes.Increment(
      static_cast<double>(features.num_bytes()));
  return features;
}

StoredFeatures DraftFanout::NewStored(Branch& branch) const {
  branch.asked_ring = features_.ring().ring().id;
  return features_.ring().From(branch.link.features_end(),
                               branch.round.stored_features);
}

void DraftFanout::NoteLacks(const Proposal& proposal, Branch& branch) {
  if (proposal.lacks_features) branch.lacking_ring = branch.asked_ring;
  if (proposal.ring_unreadable) {
    branch.peer->unreadable_ring = branch.asked_ring;
  }
}

}  // namespace espalier::coordinator
