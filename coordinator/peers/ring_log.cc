#include "coordinator/peers/ring_log.h"

#include <algorithm>

namespace espalier::coordinator {

void RingLog::Want(const FeatureContract& contract) {
  if (!target_.Serves(contract) || Find(contract) != nullptr ||
      std::ssize(held_) == kMaxStoreContracts) {
    return;
  }
  held_.push_back({.contract = {.taps = contract.taps}});
}

std::vector<std::vector<int32_t>> RingLog::Request() const {
  std::vector<std::vector<int32_t>> contracts;
  if (ring_.id == 0) return contracts;
  for (const Held& held : held_) contracts.push_back(held.contract.taps);
  return contracts;
}

// A verifier that has started again in the meantime has another ring.
void RingLog::Add(const StoredSegments& stored, int64_t end) {
  if (ring_id_ != stored.ring_id) {
    for (Held& held : held_) held.contract.segments.clear();
    ring_id_ = stored.ring_id;
  }
  for (size_t i = 0; i < held_.size(); ++i) {
    held_[i].end = end;
    if (i >= stored.contracts.size()) continue;
    for (const RingSegment& segment : stored.contracts[i]) {
      AppendSegment(segment, held_[i].contract.segments);
    }
  }
}

bool RingLog::Lacks(const FeatureContract& contract) const {
  const Held* const held = Find(contract);
  if (held == nullptr || held->end == 0) return false;
  // Another ring gets all features again.
  if (ring_id_ != 0 && ring_id_ != ring_.id) return false;
  const std::vector<RingSegment>& segments = held->contract.segments;
  return segments.empty() || segments.back().end_position() != held->end;
}

StoredFeatures RingLog::From(int64_t position,
                             const FeatureContract& contract) const {
  const Held* const held = Find(contract);
  if (held == nullptr || ring_id_ != ring_.id) return {};
  return {
      .ring = ring_,
      .segments = SegmentsFrom(
          position, contract.width() * static_cast<int64_t>(sizeof(uint16_t)),
          held->contract.segments)};
}

const RingLog::Held* RingLog::Find(const FeatureContract& contract) const {
  const auto found = std::find_if(
      held_.begin(), held_.end(),
      [&](const Held& held) { return held.contract.taps == contract.taps; });
  return found == held_.end() ? nullptr : &*found;
}

}  // namespace espalier::coordinator
