#include "coordinator/peers/feature_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::coordinator {
namespace {

// As many positions' features are sent together if no drafter needs them.
constexpr int64_t kMaxDeferredPositions = 32;

int64_t RowBytes(const FeatureRows& rows) {
  return rows.width * static_cast<int64_t>(sizeof(uint16_t));
}

}  // namespace

void FeatureLog::Want(const FeatureContract& contract) {
  if (!target_.Serves(contract)) return;
  FeatureContract all = {.hidden_size = target_.hidden_size};
  std::set_union(wanted_.taps.begin(), wanted_.taps.end(),
                 contract.taps.begin(), contract.taps.end(),
                 std::back_inserter(all.taps));
  if (all.taps == wanted_.taps || !target_.Serves(all)) return;
  wanted_ = std::move(all);
  rows_ = {.width = wanted_.width()};  // the old ones lack the new points
  CutToBudget();
}

void FeatureLog::WantNone() {
  if (wanted_.taps.empty()) return;
  wanted_ = {};
  rows_ = {};
  deferred_ = false;
  CutToBudget();
}

FeatureRequest FeatureLog::Request(bool needed, int64_t length) {
  deferred_ = !needed && !wanted_.taps.empty() &&
              length - rows_.end_position() < kMaxDeferredPositions;
  return {.taps = wanted_.taps,
          .first_position = rows_.end_position(),
          .deferred = deferred_,
          .store = ring_.Request()};
}

void FeatureLog::Add(const FeatureRows& rows, int64_t end) {
  if (rows.empty() || rows.width != wanted_.width() ||
      rows.first_position < 0 || rows.end_position() != end) {
    return;
  }
  rows_.Extend(rows);
  CutToBudget();
}

void FeatureLog::Release(int64_t position) {
  released_ = position;
  CutToBudget();
}

void FeatureLog::CutToBudget() {
  CutTo(budget_.limits().session_bytes, released_);
  const int64_t first = std::max(rows_.first_position, released_);
  CutTo(budget_.RoomFor(counted_bytes_), rows_.end_position());
  budget_.CountLost(std::max<int64_t>(rows_.first_position - first, 0));
  budget_.Change(counted_bytes_, num_bytes());
  counted_bytes_ = num_bytes();
}

// Cuts more than needed, so that the next row does not cause another cut.
void FeatureLog::CutTo(int64_t max_bytes, int64_t limit) {
  if (num_bytes() <= max_bytes) return;
  const int64_t left = max_bytes / 8 * 7 / RowBytes(rows_);
  rows_.CutBefore(std::min(rows_.end_position() - left, limit));
  if (rows_.data.capacity() > 2 * rows_.data.size()) rows_.data.shrink_to_fit();
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
  const int64_t most =
      std::max<int64_t>(budget_.limits().request_bytes / RowBytes(part), 1);
  const int64_t end =
      std::min(rows_.end_position(), part.first_position + most);
  if (part.first_position < end) {
    AppendTaps(rows_.Rows(part.first_position, end - part.first_position),
               wanted_.taps, contract.taps, target_.hidden_size, part.data);
  }
  return part;
}

}  // namespace espalier::coordinator
