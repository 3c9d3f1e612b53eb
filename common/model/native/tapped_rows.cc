#include "common/model/native/tapped_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/status_macros.h"

namespace espalier {

void TappedRows::Start(int64_t rows, absl::Span<const int32_t> points,
                       int64_t hidden) {
  rows_ = rows;
  hidden_ = hidden;
  points_.assign(points.begin(), points.end());
  states_.reset();
  const int64_t size = rows_ * width();
  if (size > 0) states_ = std::make_unique_for_overwrite<uint16_t[]>(size);
}

bool TappedRows::Wants(int32_t point) const {
  return std::binary_search(points_.begin(), points_.end(), point);
}

void TappedRows::Take(int32_t point, const float* x) {
  const auto found = std::find(points_.begin(), points_.end(), point);
  if (found == points_.end()) return;
  uint16_t* out = states_.get() + (found - points_.begin()) * hidden_;
  for (int64_t row = 0; row < rows_; ++row, x += hidden_, out += width()) {
    std::transform(x, x + hidden_, out, FloatToBf16);
  }
}

absl::Status TappedRows::Copy(absl::Span<const int32_t> path,
                              absl::Span<uint16_t> features) const {
  RETURN_IF_ERROR(CheckFeatureRoom(features.size(), path.size(), width()));
  if (features.empty()) return absl::OkStatus();
  uint16_t* out = features.data();
  for (int32_t row : path) {
    out = std::copy_n(states_.get() + row * width(), width(), out);
  }
  return absl::OkStatus();
}

absl::Status CheckFeatureRoom(size_t room, size_t rows, int64_t width) {
  const size_t size = rows * static_cast<size_t>(width);
  if (room == 0 || room == size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "room for ", room, " features, but ", rows, " rows have ", size));
}

}  // namespace espalier
