#include "coordinator/control/session_drafter.h"

#include <algorithm>

#include "absl/time/time.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kCheap = 0.1;  // tokens
constexpr double kMinContinues = 0.05;
constexpr int64_t kLevelsInterval = 32;  // rounds
constexpr int kMaxMisses = 8;
constexpr int64_t kAbsence = 64;  // rounds
// Rounds that pay for catching up.
constexpr double kPaysBack = 16;
// Rounds of plain decoding that catching up may take.
constexpr double kMaxCatchUp = 16;

}  // namespace

double SessionDrafter::CatchUpSeconds() const {
  return lags() ? value_.catch_up_seconds.mean() * backlog() : 0;
}

// Tokens that all sessions would emit while it drafts for `seconds`.
double SessionDrafter::Price(double seconds) const {
  return price_.tokens_per_second *
         (seconds + price_.others * value_.shared_seconds.mean());
}

bool SessionDrafter::is_cheap() const {
  return value_.seconds.is_known() && Price(value_.seconds.mean()) <= kCheap;
}

double SessionDrafter::Cost(double errors) const {
  double seconds = std::max(0.0, value_.seconds.Bound(errors));
  if (!is_cheap()) {
    seconds += std::max(0.0, value_.other_seconds.mean());
    seconds += CatchUpSeconds() / kPaysBack;
  }
  return Price(seconds);
}

// On the same cores they wait for each other.
double SessionDrafter::CostBeside(const SessionDrafter& first,
                                  double errors) const {
  const bool same_cores =
      value_.cpu_group != 0 && value_.cpu_group == first.value_.cpu_group;
  const double hidden =
      same_cores ? 0 : price_.tokens_per_second * first.value_.seconds.mean();
  return std::max(0.0, Cost(errors) - hidden);
}

double SessionDrafter::Worth(double nothing, double errors) const {
  if (errors < 0 && !(value_.alone.is_known() && value_.seconds.is_known())) {
    return 0;
  }
  return nothing * value_.alone.Bound(errors) - Cost(-errors);
}

double SessionDrafter::WorthBeside(const SessionDrafter& first, double nothing,
                                   double errors) const {
  if (errors < 0 && !(value_.beside.is_known() && value_.seconds.is_known())) {
    return 0;
  }
  const double gain =
      std::min(value_.beside.Bound(errors), value_.alone.Bound(kTry));
  return nothing * gain - CostBeside(first, -errors);
}

// The round does not wait for a drafter that catches up with much text on cores
// of its own. On the verifier's cores it does: a pass beside it would wait for
// the same work, and its tree would come too late.
DraftCall SessionDrafter::Call() const {
  double most =
      std::max({0.0, value_.alone.Bound(kTry), value_.beside.Bound(kTry)});
  if (lags()) most = std::max(most, kMaxCatchUp);
  const bool beside = value_.own_cores && lags();
  return {.attention = beside ? Attention::kAsked : Attention::kAwaited,
          .patience = price_.tokens_per_second > 0
                          ? absl::Seconds(most / price_.tokens_per_second)
                          : absl::InfiniteDuration(),
          .least_reach = LeastReach()};
}

// A level that the text reaches with probability r brings r times the chance
// that it goes on. That has to be worth its time and a row. Now and then all
// levels are asked for, so that their time is known.
float SessionDrafter::LeastReach() const {
  const double seconds = value_.level_seconds.mean();
  if (seconds == 0 || round_ % kLevelsInterval == 0) return 0;
  const double sessions = value_.own_cores ? 1 : 1 + price_.others;
  const double cost =
      price_.tokens_per_second * sessions * seconds + price_.row;
  const double continues = std::max(kMinContinues, value_.continues.mean());
  return static_cast<float>(std::clamp(cost / continues, 0.0, 1.0));
}

void SessionDrafter::LearnPause() {
  ++round_;
  ++pause_;
  absence_ = std::max<int64_t>(0, absence_ - 1);
  kept_up_ = false;
  value_.Fade();
}

double SessionDrafter::Learn(const DrafterReturn& r, const Observed& observed) {
  ++round_;
  pause_ = 0;
  LearnGain(r, observed.beside);
  LearnAbsence(r);
  value_.cpu_group = r.cpu_group;
  value_.own_cores = !r.shares_verifier_cores;
  const bool kept_up = kept_up_ || is_cheap();
  // A drafter that was waited for in vain still owes its answer.
  if (!r.in_vain) kept_up_ = r.waited.has_value();
  if (!observed.seconds) return 0;
  double seconds = *observed.seconds;
  if (is_cheap()) seconds += observed.handling;
  if (!kept_up) return LearnCatchUp(seconds);
  seen_ = length_;
  value_.seconds.Observe(seconds);
  value_.shared_seconds.Observe(r.shares_verifier_cores ? seconds : 0);
  return 0;
}

void SessionDrafter::LearnGain(const DrafterReturn& r, bool beside) {
  // It may have been catching up if it did not answer in the last round.
  const bool missing = r.gain == TreeGain() && !kept_up_;
  if (r.late == nullptr && (r.attention != Attention::kAwaited || missing)) {
    value_.Fade();
    return;
  }
  value_.alone.Observe(r.gain.alone);
  if (r.accepted) value_.continues.Observe(*r.accepted > 0 ? 1 : 0);
  if (r.level > absl::ZeroDuration()) {
    value_.level_seconds.Observe(absl::ToDoubleSeconds(r.level));
  }
  if (beside) value_.beside.Observe(r.gain.beside);
}

// One that does not answer for long keeps no other from being asked.
void SessionDrafter::LearnAbsence(const DrafterReturn& r) {
  const bool answered = r.late != nullptr || (r.waited && !r.in_vain);
  if (answered) {
    misses_ = 0;
  } else if (++misses_ >= kMaxMisses) {
    misses_ = 0;
    absence_ = kAbsence;
  }
}

// A call took `seconds` after a pause. Returns how much of it catching up took,
// whose price is learned apart from that of a draft.
double SessionDrafter::LearnCatchUp(double seconds) {
  const double catch_up = std::max(0.0, seconds - value_.seconds.mean());
  const double tokens = backlog();
  seen_ = length_;
  if (value_.seconds.is_known() && tokens >= kLongPause) {
    value_.catch_up_seconds.Observe(catch_up / tokens);
  }
  return catch_up;
}

}  // namespace espalier::coordinator
