#ifndef ESPALIER_COORDINATOR_TENANTS_QUOTA_H_
#define ESPALIER_COORDINATOR_TENANTS_QUOTA_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace espalier::coordinator {

// An amount that may be used in a minute, at once or spread. What is used
// beyond it is owed, and is paid by time. Not thread-safe.
class Quota {
 public:
  // nullopt: there is no limit.
  explicit Quota(std::optional<double> per_minute = std::nullopt)
      : per_minute_(per_minute), left_(per_minute.value_or(0)) {}

  // Changes the limit. What is left, or owed, is kept up to the new limit.
  void SetLimit(std::optional<double> per_minute) {
    if (per_minute && per_minute_) {
      left_ = std::min(left_, *per_minute);
    } else {
      left_ = per_minute.value_or(0);
    }
    per_minute_ = per_minute;
  }

  // Returns the time until `amount` is there; zero: it is.
  absl::Duration WaitFor(double amount, absl::Time now) {
    if (!per_minute_) return absl::ZeroDuration();
    Refill(now);
    if (left_ >= amount) return absl::ZeroDuration();
    return absl::Minutes(1) * ((amount - left_) / *per_minute_);
  }

  void Use(double amount, absl::Time now) {
    if (!per_minute_) return;
    Refill(now);
    left_ -= amount;
  }

 private:
  void Refill(absl::Time now) {
    if (now > last_ && last_ != absl::InfinitePast()) {
      left_ =
          std::min(*per_minute_,
                   left_ + *per_minute_ * absl::FDivDuration(now - last_,
                                                             absl::Minutes(1)));
    }
    last_ = std::max(last_, now);
  }

  std::optional<double> per_minute_;
  double left_;  // below 0: owed
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TENANTS_QUOTA_H_
