#include "coordinator/peers/feature_log.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace espalier::coordinator {

void FeatureLog::Want(const FeatureContract& contract) {
  if (!target_.Serves(contract)) return;
  FeatureContract all = {.hidden_size = target_.hidden_size};
  std::set_union(wanted_.taps.begin(), wanted_.taps.end(),
                 contract.taps.begin(), contract.taps.end(),
                 std::back_inserter(all.taps));
  if (all.taps == wanted_.taps || !target_.Serves(all)) return;
  wanted_ = std::move(all);
  rows_ = {.width = wanted_.width()};  // the old ones lack the new points
}

FeatureRequest FeatureLog::Request() const {
  return {.taps = wanted_.taps, .first_position = rows_.end_position()};
}

void FeatureLog::Add(const FeatureRows& rows, int64_t end) {
  if (rows.empty() || rows.width != wanted_.width() ||
      rows.first_position < 0 || rows.end_position() != end) {
    return;
  }
  rows_.Extend(rows);
  rows_.CutToBytes(max_bytes_);
}

FeatureRows FeatureLog::From(int64_t position,
                             const FeatureContract& contract) const {
  FeatureRows part = {
      .first_position = std::max(position, rows_.first_position),
      .width = contract.width()};
  if (contract.taps.empty() || !target_.Serves(contract) ||
      !std::includes(wanted_.taps.begin(), wanted_.taps.end(),
                     contract.taps.begin(), contract.taps.end())) {
    return part;
  }
  std::vector<int64_t> columns;  // in rows_, where each tap begins
  for (int32_t tap : contract.taps) {
    const auto found =
        std::lower_bound(wanted_.taps.begin(), wanted_.taps.end(), tap);
    columns.push_back((found - wanted_.taps.begin()) * target_.hidden_size);
  }
  for (int64_t i = part.first_position; i < rows_.end_position(); ++i) {
    const auto row = rows_.Row(i).begin();
    for (int64_t column : columns) {
      part.data.insert(part.data.end(), row + column,
                       row + column + target_.hidden_size);
    }
  }
  return part;
}

}  // namespace espalier::coordinator
