#ifndef ESPALIER_COMMON_BASE_TOKEN_BUCKET_H_
#define ESPALIER_COMMON_BASE_TOKEN_BUCKET_H_

#include <algorithm>

#include "absl/time/time.h"

namespace espalier {

// Limits how often something may happen: `burst` times at once, and then
// `per_second` times a second. Not thread-safe.
class TokenBucket {
 public:
  TokenBucket(double burst, double per_second)
      : burst_(burst), per_second_(per_second), tokens_(burst) {}

  // Returns whether it may happen now, and counts it if so.
  bool Take(absl::Time now) {
    if (now > last_) {
      const double gained =
          last_ == absl::InfinitePast()
              ? burst_
              : absl::ToDoubleSeconds(now - last_) * per_second_;
      tokens_ = std::min(burst_, tokens_ + gained);
      last_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double burst_;
  const double per_second_;
  double tokens_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_TOKEN_BUCKET_H_
