#ifndef ESPALIER_COORDINATOR_CONTROL_PLAIN_PACE_H_
#define ESPALIER_COORDINATOR_CONTROL_PLAIN_PACE_H_

#include <algorithm>
#include <cmath>

namespace espalier::coordinator {

// Estimates what a round of plain decoding takes, less the rows of other
// sessions: the pass, hops, wake-ups and whatever else the machine does.
// Measured by rounds of plain decoding; between these, it follows the
// verifier's estimate of the pass downwards from what the passes of these
// rounds took, since the estimate itself lags behind a machine that becomes
// quicker. It is measured again if the estimate or the rest of other rounds
// changes much. It does not follow upwards: passes after a network's work find
// cold caches, which passes of plain decoding do not. A pace that is too short
// is found out, because drafting then seems not to pay, and plain rounds
// follow. Lives on the executor.
class PlainPace {
 public:
  struct Pass {
    double expected = 0;  // seconds, by the verifier; 0: it does not know
    double took = 0;      // seconds
  };
  // A round of plain decoding took `seconds`, its pass included.
  void Observe(double seconds, Pass pass) {
    if (Differs(pass.expected) || has_changed_) *this = PlainPace();
    // The round may have been held up.
    if (weight_ >= kFew) {
      seconds = std::min(seconds, kHeldUp * seconds_);
      pass.took = std::min(pass.took, kHeldUp * pass_seconds_);
    }
    weight_ = std::min(weight_ + 1, kMemory);
    is_known_ |= weight_ >= kFew;
    seconds_ += (seconds - seconds_) / weight_;
    expected_ += (pass.expected - expected_) / weight_;
    pass_seconds_ += (pass.took - pass_seconds_) / weight_;
  }
  // A round was not one of plain decoding. rest_seconds: what it took without
  // its drafts and its pass, as the verifier expected it.
  void Fade(double rest_seconds) {
    weight_ *= kKept;
    const double most = kMax * seconds_;
    const double rest = std::clamp(rest_seconds, -most, most);
    rests_ = std::min(rests_ + 1, 2 * kMemory);
    if (rests_ <= kMemory) first_rest_ += (rest - first_rest_) / rests_;
    last_rest_ += (rest - last_rest_) / std::min(rests_, kMemory);
    has_changed_ |= rests_ == 2 * kMemory &&
                    std::abs(last_rest_ - first_rest_) > kChange * seconds_;
  }

  // Seconds of a round; 0: not known. pass_seconds: as expected now.
  double Seconds(double pass_seconds) const {
    if (seconds_ == 0) return pass_seconds;
    const double less = std::min(0.0, pass_seconds - pass_seconds_);
    return std::max(seconds_ + less, seconds_ / kMax);
  }
  // Seconds of a round beside its pass.
  double RestSeconds() const { return seconds_ - pass_seconds_; }
  // Returns true if it should be measured again.
  bool IsStale(double pass_seconds) const {
    return !is_known_ || weight_ < kMin || has_changed_ ||
           Differs(pass_seconds);
  }
  // A copy for another session, which makes observations of its own.
  PlainPace Recalled() const {
    PlainPace copy = *this;
    copy.weight_ = std::min(weight_, 2 * kFew);
    return copy;
  }

 private:
  static constexpr double kFew = 4;
  static constexpr double kMin = 2;
  static constexpr double kMemory = 16;
  static constexpr double kKept = 0.995;  // of the weight, each round
  static constexpr double kHeldUp = 1.5;  // rounds
  static constexpr double kMax = 4;
  static constexpr double kDifferent = 0.4;  // in the logarithm
  static constexpr double kChange = 0.2;     // of a round

  bool Differs(double pass_seconds) const {
    return weight_ > 0 && pass_seconds > 0 && expected_ > 0 &&
           std::abs(std::log(pass_seconds / expected_)) > kDifferent;
  }

  double seconds_ = 0;       // of a round
  double pass_seconds_ = 0;  // of their passes
  double expected_ = 0;      // as the verifier expected these
  double weight_ = 0;
  bool is_known_ = false;  // by a few rounds
  // Other rounds since it was measured: how many, and means of the first and
  // the last of them.
  double rests_ = 0;
  double first_rest_ = 0;
  double last_rest_ = 0;
  bool has_changed_ = false;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_PLAIN_PACE_H_
