#include "verifier/cost_table.h"

#include <algorithm>
#include <utility>

namespace espalier::verifier {
namespace {

constexpr double kStep = 0.1;        // of the moving average
constexpr double kCommonPart = 0.8;  // of a difference: the machine's
// Observations of a point, that at start included, until it moves by kStep.
constexpr double kSettled = 9;
constexpr double kLargestFactor = 2;
// Of a point; a clock may be too coarse for a toy model.
constexpr absl::Duration kLeastTime = absl::Microseconds(1);

// Weight of `point` in the interpolation at `rows`, 0 .. 1, given the distance
// to the next point on that side.
double Nearness(const PassCosts& points, size_t point, int64_t rows) {
  const int64_t here = points[point].rows;
  if (rows == here) return 1;
  const bool above = rows > here;
  const bool outermost = above ? point + 1 == points.size() : point == 0;
  if (outermost) return 1;
  const int64_t next = points[above ? point + 1 : point - 1].rows;
  return std::max(
      0.0, static_cast<double>(next - rows) / static_cast<double>(next - here));
}

}  // namespace

CostTable::CostTable(PassCosts points)
    : points_(std::move(points)), seen_(points_.size(), 1) {
  absl::Duration least = kLeastTime;
  for (PassCost& point : points_) {
    least = point.time = std::max(point.time, least);
  }
}

bool CostTable::Settled(int64_t rows) const {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (Nearness(points_, i, rows) > 0 && seen_[i] < kSettled) return false;
  }
  return true;
}

void CostTable::Observe(int64_t rows, absl::Duration time) {
  if (points_.empty() || time <= absl::ZeroDuration()) return;
  const double factor =
      std::clamp(absl::FDivDuration(time, PassTime(points_, rows)),
                 1 / kLargestFactor, kLargestFactor);
  const double common_step = Settled(rows) ? kCommonPart * kStep : 0;
  size_t nearest = 0;
  double nearest_weight = 0;
  for (size_t i = 0; i < points_.size(); ++i) {
    const double nearness = Nearness(points_, i, rows);
    const double own_step = seen_[i] >= kSettled ? kStep
                            : factor < 1         ? 1
                                                 : 1 / (1 + seen_[i]);
    const double step = nearness * own_step + (1 - nearness) * common_step;
    points_[i].time *= 1 + step * (factor - 1);
    points_[i].time = std::max(points_[i].time, kLeastTime);
    seen_[i] += nearness;
    if (nearness > nearest_weight) {
      nearest = i;
      nearest_weight = nearness;
    }
  }
  // The point just seen is the one to believe.
  for (size_t i = nearest; i > 0; --i) {
    points_[i - 1].time = std::min(points_[i - 1].time, points_[i].time);
  }
  for (size_t i = nearest + 1; i < points_.size(); ++i) {
    points_[i].time = std::max(points_[i].time, points_[i - 1].time);
  }
}

}  // namespace espalier::verifier
