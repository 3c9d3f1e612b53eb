#include "drafter/engine/host_feature_store.h"

#include "common/base/check.h"

namespace espalier::drafter {

void HostFeatureStore::Append(SequenceId id, int64_t position,
                              absl::Span<const uint16_t> rows) {
  const int64_t width = contract_.width();
  ESPALIER_CHECK(std::ssize(rows) % width == 0);
  if (rows.empty()) return;
  FeatureRows& held = sequences_[id];
  if (held.empty()) held = {.first_position = position, .width = width};
  ESPALIER_CHECK(position == held.end_position());
  held.data.insert(held.data.end(), rows.begin(), rows.end());
}

void HostFeatureStore::Cut(SequenceId id, FeatureRange range) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  FeatureRows& held = found->second;
  held.CutFrom(range.end);
  held.CutBefore(range.begin);
  if (range.empty() || held.empty()) sequences_.erase(found);
}

absl::Span<const uint16_t> HostFeatureStore::Rows(SequenceId id,
                                                  FeatureRange range) const {
  if (range.empty()) return {};
  const auto found = sequences_.find(id);
  ESPALIER_CHECK(found != sequences_.end());
  const FeatureRows& held = found->second;
  ESPALIER_CHECK(held.first_position <= range.begin &&
                 range.end <= held.end_position());
  return held.Rows(range.begin, range.size());
}

}  // namespace espalier::drafter
