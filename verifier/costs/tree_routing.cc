#include "verifier/costs/tree_routing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier::verifier {
namespace {

constexpr double kLearned = 1.0 / 16;  // of the mean, by each pass

}  // namespace

double TreeRouting::RowsThatRead(int64_t experts) const {
  for (size_t i = 0; i < unlike_.size(); ++i) {
    const ExpertsRead& high = unlike_[i];
    if (experts > high.experts) continue;
    if (i == 0 || experts == high.experts) {
      return static_cast<double>(high.rows);
    }
    const ExpertsRead& low = unlike_[i - 1];
    const double part = static_cast<double>(experts - low.experts) /
                        static_cast<double>(high.experts - low.experts);
    return static_cast<double>(low.rows) +
           part * static_cast<double>(high.rows - low.rows);
  }
  return static_cast<double>(unlike_.back().rows);
}

void TreeRouting::ObserveTree(int64_t rows, int64_t experts) {
  if (unlike_.empty() || experts <= 0 || rows < 2) return;
  const double share = std::clamp(
      (RowsThatRead(experts) - 1) / static_cast<double>(rows - 1), 0.0, 1.0);
  if (!std::exchange(was_observed_, true)) unlike_share_ = share;
  unlike_share_ += kLearned * (share - unlike_share_);
}

int64_t TreeRouting::UnlikeRows(int64_t rows) const {
  return 1 + std::llround(unlike_share_ * static_cast<double>(rows - 1));
}

}  // namespace espalier::verifier
