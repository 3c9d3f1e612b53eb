#include "verifier/costs/cost_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier::verifier {
namespace {

// Variances of the logarithms of times, by the component that points share.
struct Variances {
  double speed;  // shared by all points
  double slope;  // shared by points with near row counts
  double own;
};
constexpr Variances kAtStart = {.speed = 0.5, .slope = 0.3, .own = 0.1};
constexpr Variances kSteadyAtStart = {
    .speed = 0.01, .slope = 0.002, .own = 0.001};
// Added with every pass, as the machine changes.
constexpr Variances kAging = {.speed = 5e-5, .slope = 4e-5, .own = 1e-6};
// Added after a correction, times the square of its unexpected part. Most
// changes concern all points.
constexpr Variances kSurprise = {.speed = 0.5, .slope = 0.3, .own = 0.2};

// Standard deviation of one pass's log time, for times below and above the
// estimate. Other processes can delay a pass, but nothing speeds it up.
constexpr double kNoiseBelow = 0.1;
constexpr double kNoiseAbove = 0.2;
constexpr double kExpected = 2;           // standard deviations
constexpr double kLargestStep = 0.69315;  // log 2
constexpr double kLargestSurprise = 1.5;
constexpr double kWellKnown = 0.08;  // standard deviation
// Least time of a point; the clock may be too coarse for a toy model.
constexpr double kMinSeconds = 1e-6;

double Covariance(const Variances& variances, const PassCost& a,
                  const PassCost& b) {
  const double likeness = static_cast<double>(std::min(a.rows, b.rows)) /
                          static_cast<double>(std::max(a.rows, b.rows));
  return variances.speed + variances.slope * likeness +
         (a.rows == b.rows ? variances.own : 0);
}

double LogSeconds(absl::Duration time) {
  return std::log(std::max(absl::ToDoubleSeconds(time), kMinSeconds));
}

// A run of points that are averaged.
struct Level {
  double mean;
  double precision;
  size_t count;
};

}  // namespace

CostTable::CostTable(PassCosts points, bool is_steady)
    : points_(std::move(points)) {
  const Variances& at_start = is_steady ? kSteadyAtStart : kAtStart;
  for (const PassCost& a : points_) {
    log_times_.push_back(LogSeconds(a.time));
    for (const PassCost& b : points_) {
      covariance_.push_back(Covariance(at_start, a, b));
    }
  }
  Publish();
}

double CostTable::Doubt(size_t point) const {
  return std::sqrt(covariance_[point * (points_.size() + 1)]);
}

CostTable::Place CostTable::PlaceOf(int64_t rows) const {
  const size_t last = points_.size() - 1;
  if (rows > points_[last].rows) {
    const double times =
        absl::FDivDuration(PassTime(points_, rows), points_[last].time);
    return {last, last, 1, log_times_[last] + std::log(times)};
  }
  size_t high = 0;
  while (points_[high].rows < rows) ++high;
  const size_t low = points_[high].rows == rows || high == 0 ? high : high - 1;
  if (low == high) return {low, high, 1, log_times_[high]};
  const double part =
      static_cast<double>(rows - points_[low].rows) /
      static_cast<double>(points_[high].rows - points_[low].rows);
  const double of_low = (1 - part) * std::exp(log_times_[low]);
  const double of_high = part * std::exp(log_times_[high]);
  return {low, high, of_high / (of_low + of_high), std::log(of_low + of_high)};
}

// Returns by how much more than expected a pass differed. A well-known point
// needs two such passes in a row, as one may have been interrupted.
double CostTable::Surprise(double difference, double expected,
                           bool little_known) {
  const double last = std::exchange(last_surprise_, 0);
  if (std::abs(difference) <= expected) return 0;
  const double most = expected + kLargestSurprise;
  const double beyond =
      std::clamp(difference, -most, most) - std::copysign(expected, difference);
  last_surprise_ = beyond;
  if (little_known) return std::abs(beyond);
  if (last * beyond <= 0) return 0;
  return std::min(std::abs(last), std::abs(beyond));
}

// A step of a Kalman filter, except that the size of a surprising step is
// bounded, and that it increases the variances.
void CostTable::Observe(int64_t rows, absl::Duration time) {
  if (points_.empty() || time <= absl::ZeroDuration()) return;
  const size_t size = points_.size();
  const Place place = PlaceOf(rows);
  std::vector<double> with(size);  // covariance with the time of `rows`
  for (size_t i = 0; i < size; ++i) {
    with[i] = (1 - place.high_weight) * covariance(i, place.low) +
              place.high_weight * covariance(i, place.high);
  }
  const double difference = LogSeconds(time) - place.log_time;
  const double noise = difference < 0 ? kNoiseBelow : kNoiseAbove;
  const double doubt = (1 - place.high_weight) * with[place.low] +
                       place.high_weight * with[place.high];
  const double variance = doubt + noise * noise;
  const double expected = kExpected * std::sqrt(variance);
  const double largest = std::max(kLargestStep, expected);
  const double step = std::clamp(difference, -largest, largest);
  const double surprise =
      Surprise(difference, expected, doubt > kWellKnown * kWellKnown);
  for (size_t i = 0; i < size; ++i) {
    log_times_[i] += with[i] / variance * step;
    for (size_t j = 0; j < size; ++j) {
      const double gains = with[i] * with[j] / variance;
      covariance(i, j) += Covariance(kAging, points_[i], points_[j]) - gains +
                          gains / variance * surprise * surprise *
                              Covariance(kSurprise, points_[i], points_[j]);
    }
  }
  Publish();
}

// Neighbours whose times fall are replaced by their mean, weighted by
// precision.
void CostTable::Publish() {
  std::vector<Level> levels;
  for (size_t i = 0; i < points_.size(); ++i) {
    const double doubt = Doubt(i);
    Level level = {log_times_[i], 1 / (doubt * doubt), 1};
    while (!levels.empty() && levels.back().mean > level.mean) {
      const Level& before = levels.back();
      const double precision = before.precision + level.precision;
      level = {(before.mean * before.precision + level.mean * level.precision) /
                   precision,
               precision, before.count + level.count};
      levels.pop_back();
    }
    levels.push_back(level);
  }
  size_t point = 0;
  for (const Level& level : levels) {
    const absl::Duration time = absl::Nanoseconds(
        std::llround(1e9 * std::max(std::exp(level.mean), kMinSeconds)));
    for (size_t i = 0; i < level.count; ++i) points_[point++].time = time;
  }
}

}  // namespace espalier::verifier
