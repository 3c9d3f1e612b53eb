#include "common/spec/features.h"

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
