#include "common/speculation/features.h"

#include <algorithm>

namespace espalier {

bool TargetShape::Serves(const FeatureContract& contract) const {
  int32_t before = -1;
  for (int32_t tap : contract.taps) {
    if (tap <= before || tap > NormedTap(num_layers)) return false;
    before = tap;
  }
  return contract.taps.empty() || (contract.hidden_size == hidden_size &&
                                   contract.width() <= kMaxFeatureWidth);
}

void AppendTaps(absl::Span<const uint16_t> rows, absl::Span<const int32_t> taps,
                absl::Span<const int32_t> wanted, int64_t hidden,
                std::vector<uint16_t>& out) {
  std::vector<int64_t> columns;  // where each tap begins
  for (int32_t tap : wanted) {
    const auto found = std::lower_bound(taps.begin(), taps.end(), tap);
    columns.push_back((found - taps.begin()) * hidden);
  }
  const int64_t width = std::ssize(taps) * hidden;
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    for (int64_t column : columns) {
      out.insert(out.end(), row + column, row + column + hidden);
    }
  }
}

void FeatureRows::CutFrom(int64_t position) {
  const int64_t rows =
      std::clamp<int64_t>(position - first_position, 0, num_rows());
  data.resize(rows * width);
  first_position = std::min(first_position, position);
}

void FeatureRows::CutBefore(int64_t position) {
  const int64_t rows =
      std::clamp<int64_t>(position - first_position, 0, num_rows());
  data.erase(data.begin(), data.begin() + rows * width);
  first_position += rows;
}

void FeatureRows::Extend(const FeatureRows& rows) {
  if (rows.empty() || rows.end_position() <= end_position()) return;
  if (rows.width != width || rows.first_position > end_position() ||
      rows.first_position < first_position) {
    *this = rows;
    return;
  }
  const int64_t known = (end_position() - rows.first_position) * width;
  data.insert(data.end(), rows.data.begin() + known, rows.data.end());
}

}  // namespace espalier
