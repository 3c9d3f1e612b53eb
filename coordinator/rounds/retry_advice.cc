#include "coordinator/rounds/retry_advice.h"

#include <algorithm>

namespace espalier::coordinator {

RetryAdvice::RetryAdvice(int64_t places, absl::Duration first)
    : places_(places), interval_(first) {}

void RetryAdvice::PlaceFreed(absl::Duration ran) {
  constexpr double kWeight = 1.0 / 8;  // of the latest request
  const absl::Duration interval = ran / places_;
  MutexLock lock(&mutex_);
  interval_ =
      is_measured_ ? interval_ + (interval - interval_) * kWeight : interval;
  is_measured_ = true;
  refused_ = std::max<int64_t>(0, refused_ - 1);
}

absl::Duration RetryAdvice::Next() {
  MutexLock lock(&mutex_);
  ++refused_;
  return std::clamp(interval_ * refused_, absl::Milliseconds(10),
                    absl::Minutes(1));
}

}  // namespace espalier::coordinator
