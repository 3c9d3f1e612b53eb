#include "verifier/engine/pass_company.h"

#include <algorithm>

namespace espalier::verifier {

void ReturnTime::Observe(absl::Duration time) {
  if (mean_ == absl::InfiniteDuration()) {
    mean_ = time;
    deviation_ = time / 2;
    return;
  }
  deviation_ += (absl::AbsDuration(time - mean_) - deviation_) / 4;
  mean_ += (time - mean_) / 8;
}

absl::Duration ReturnTime::Remaining(absl::Duration since) const {
  return std::max(mean_ + 2 * deviation_ - since, since / 2);
}

absl::Duration WaitForCompany(int64_t rows, std::vector<AwaitedCompany> awaited,
                              const PassCosts& costs, int64_t max_rows) {
  std::sort(awaited.begin(), awaited.end(),
            [](const AwaitedCompany& a, const AwaitedCompany& b) {
              return a.due < b.due;
            });
  absl::Duration wait, most;
  int64_t more = 0;
  for (const AwaitedCompany& company : awaited) {
    more += company.rows;
    if (rows + more > max_rows) break;
    const absl::Duration saved = PassTime(costs, rows) + PassTime(costs, more) -
                                 PassTime(costs, rows + more);
    if (saved - company.due <= most) continue;
    most = saved - company.due;
    wait = company.due;
  }
  return wait;
}

}  // namespace espalier::verifier
