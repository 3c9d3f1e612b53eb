#include "coordinator/control/drafter_policy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kUse = 0.5;           // standard errors below the mean
constexpr double kTry = 1;             // and above it
constexpr double kCheap = 0.1;         // tokens
constexpr double kIdleCost = 0.01;     // tokens a round
constexpr double kWorthATrial = 0.02;  // tokens a round
constexpr double kMinNothing = 0.3;    // for a trial beside cheap drafters
constexpr int kTrialAnswers = 4;
constexpr int kTrialRounds = 12;
constexpr double kMinContinues = 0.05;
constexpr int64_t kLevelsInterval = 32;  // rounds
constexpr int kMaxMisses = 8;
constexpr int64_t kAbsence = 64;  // rounds
// After so many rounds catching up takes longer than a draft. It is paid for in
// so many rounds.
constexpr int64_t kLongPause = 8;
constexpr double kPaysBack = 16;
// Rounds of plain decoding that catching up may take.
constexpr double kMaxCatchUp = 16;

}  // namespace

DrafterPolicy::DrafterPolicy(std::vector<DrafterValue> prior,
                             TrialBudget* budget)
    : values_(std::move(prior)),
      budget_(*budget),
      active_(values_.size(), true),
      kept_up_(values_.size(), false),
      pauses_(values_.size(), kLongPause),
      seen_(values_.size(), 0),
      misses_(values_.size(), 0),
      back_(values_.size(), 0) {}

// Whether the text has grown much since the drafter saw it.
bool DrafterPolicy::Lags(int drafter) const {
  return pauses_[drafter] >= kLongPause && !IsCheap(drafter);
}

// Tokens of the text that it has not seen.
double DrafterPolicy::Backlog(int drafter) const {
  return static_cast<double>(length_ - seen_[drafter]);
}

// What it takes to see them.
double DrafterPolicy::CatchUpSeconds(int drafter) const {
  if (!Lags(drafter)) return 0;
  return values_[drafter].catch_up_seconds.mean() * Backlog(drafter);
}

// Tokens that all sessions would emit while it drafts for `seconds`.
double DrafterPolicy::Price(int drafter, double seconds) const {
  return price_.tokens_per_second *
         (seconds + price_.others * values_[drafter].shared_seconds.mean());
}

// The price of its time, and of what its rounds take beside that.
double DrafterPolicy::Cost(int drafter, double errors) const {
  const DrafterValue& value = values_[drafter];
  double seconds = std::max(0.0, value.seconds.Bound(errors));
  if (!IsCheap(drafter)) {
    seconds += std::max(0.0, value.other_seconds.mean());
    seconds += CatchUpSeconds(drafter) / kPaysBack;
  }
  return Price(drafter, seconds);
}

// Returns the cost beside another drafter: on the same cores they wait for each
// other.
double DrafterPolicy::CostBeside(int drafter, int first, double errors) const {
  const uint64_t cpu_group = values_[drafter].cpu_group;
  const bool same_cores =
      cpu_group != 0 && cpu_group == values_[first].cpu_group;
  const double hidden =
      same_cores ? 0 : price_.tokens_per_second * values_[first].seconds.mean();
  return std::max(0.0, Cost(drafter, errors) - hidden);
}

bool DrafterPolicy::IsCheap(int drafter) const {
  const Estimate& seconds = values_[drafter].seconds;
  return seconds.is_known() && Price(drafter, seconds.mean()) <= kCheap;
}

// A cheap drafter that does not pay is asked so seldom that this costs next to
// nothing: what it gains changes within a text. It can gain less where sessions
// share passes.
bool DrafterPolicy::IsDue(int drafter) const {
  if (!IsThere(drafter) || !IsCheap(drafter)) return false;
  const double idle_cost = kIdleCost / std::sqrt(1 + price_.others);
  return Worth(drafter, 1, -kUse) > 0 ||
         idle_cost * static_cast<double>(pauses_[drafter] + 1) >=
             Cost(drafter, 0);
}

double DrafterPolicy::Worth(int drafter, double nothing, double errors) const {
  const DrafterValue& value = values_[drafter];
  if (errors < 0 && !(value.alone.is_known() && value.seconds.is_known())) {
    return 0;
  }
  return nothing * value.alone.Bound(errors) - Cost(drafter, -errors);
}

double DrafterPolicy::WorthBeside(int drafter, int first, double nothing,
                                  double errors) const {
  const DrafterValue& value = values_[drafter];
  if (errors < 0 && !(value.beside.is_known() && value.seconds.is_known())) {
    return 0;
  }
  const double gain =
      std::min(value.beside.Bound(errors), value.alone.Bound(kTry));
  return nothing * gain - CostBeside(drafter, first, -errors);
}

// The best drafter that is not cheap; none if none pays.
DrafterPolicy::Pick DrafterPolicy::Best(double nothing) const {
  Pick best;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!IsThere(i) || IsCheap(i)) continue;
    const double worth = Worth(i, nothing, -kUse);
    if (worth > best.worth) best = {i, worth};
  }
  return best;
}

DrafterPolicy::Pick DrafterPolicy::SecondTo(int first, double nothing) const {
  Pick best;
  for (int i = 0; i < num_drafters(); ++i) {
    if (i == first || !IsThere(i) || IsCheap(i)) continue;
    const double worth = WorthBeside(i, first, nothing, -kUse);
    if (worth > best.worth) best = {i, worth};
  }
  return best;
}

// What the drafter may gain beside those that are used, or in place of one; 0:
// it is used.
double DrafterPolicy::HopeOf(int drafter, const Pick& used) const {
  if (!IsThere(drafter) || IsCheap(drafter) || drafter == used.drafter) {
    return 0;
  }
  const double alone = Worth(drafter, 1, kTry);
  if (used.drafter < 0) {
    return Worth(drafter, 1, -kUse) > 0 ? 0 : alone;
  }
  if (WorthBeside(drafter, used.drafter, 1, -kUse) > 0) return 0;
  return std::max(alone - used.worth,
                  WorthBeside(drafter, used.drafter, 1, kTry));
}

void DrafterPolicy::ChooseTrial() {
  const Pick used = Best(1);
  double most = kWorthATrial;
  for (int i = 0; i < num_drafters(); ++i) {
    const double hope = HopeOf(i, used);
    if (hope <= most || !budget_.Allows(Price(i, CatchUpSeconds(i)))) continue;
    most = hope;
    trial_ = {.drafter = i};
  }
}

void DrafterPolicy::SetPrice(TimePrice price) {
  price_ = price;
  nothing_ = 1;
}

void DrafterPolicy::ConsiderTrial() {
  if (!trial_) ChooseTrial();
  if (trial_ && (!IsThere(trial_->drafter) || IsCheap(trial_->drafter) ||
                 ++trial_->rounds > kTrialRounds)) {
    trial_.reset();
  }
}

bool DrafterPolicy::Rests(bool cheap_only) const {
  if (!cheap_only && (trial_ || Best(1).drafter >= 0)) return false;
  for (int i = 0; i < num_drafters(); ++i) {
    if (IsDue(i)) return false;
  }
  return true;
}

// The round does not wait for a drafter that catches up with much text on cores
// of its own. On the verifier's cores it does: a pass beside it would wait for
// the same work, and its tree would come too late.
DraftCall DrafterPolicy::Call(int drafter) const {
  const DrafterValue& value = values_[drafter];
  double most =
      std::max({0.0, value.alone.Bound(kTry), value.beside.Bound(kTry)});
  if (Lags(drafter)) most = std::max(most, kMaxCatchUp);
  const bool beside = value.own_cores && Lags(drafter);
  return {.attention = beside ? Attention::kAsked : Attention::kAwaited,
          .patience = price_.tokens_per_second > 0
                          ? absl::Seconds(most / price_.tokens_per_second)
                          : absl::InfiniteDuration(),
          .least_reach = LeastReach(drafter)};
}

// A level that the text reaches with probability r brings r times the chance
// that it goes on. That has to be worth its time and a row. Now and then all
// levels are asked for, so that their time is known.
float DrafterPolicy::LeastReach(int drafter) const {
  const DrafterValue& value = values_[drafter];
  const double seconds = value.level_seconds.mean();
  if (seconds == 0 || round_ % kLevelsInterval == 0) return 0;
  const double sessions = value.own_cores ? 1 : 1 + price_.others;
  const double cost =
      price_.tokens_per_second * sessions * seconds + price_.row;
  const double continues = std::max(kMinContinues, value.continues.mean());
  return static_cast<float>(std::clamp(cost / continues, 0.0, 1.0));
}

std::vector<DraftCall> DrafterPolicy::NoCalls() const {
  return std::vector<DraftCall>(num_drafters(), {Attention::kNone});
}

std::vector<DraftCall> DrafterPolicy::AllCalls() const {
  std::vector<DraftCall> calls = NoCalls();
  for (int i = 0; i < num_drafters(); ++i) {
    if (IsThere(i)) calls[i] = Call(i);
  }
  return calls;
}

std::vector<DraftCall> DrafterPolicy::FirstCalls() const {
  std::vector<DraftCall> calls = NoCalls();
  for (int i = 0; i < num_drafters(); ++i) {
    if (IsDue(i)) calls[i] = Call(i);
  }
  return calls;
}

std::vector<DraftCall> DrafterPolicy::FurtherCalls(double nothing) {
  std::vector<DraftCall> calls = NoCalls();
  nothing_ = nothing;
  const int first = Best(nothing).drafter;
  if (first >= 0) {
    calls[first] = Call(first);
    const int second = SecondTo(first, nothing).drafter;
    if (second >= 0) calls[second] = Call(second);
  }
  if (trial_ && nothing >= kMinNothing) {
    calls[trial_->drafter] = Call(trial_->drafter);
  }
  return calls;
}

double DrafterPolicy::Learn(absl::Span<const DrafterReturn> returns,
                            const Spent& spent) {
  ++round_;
  budget_.Earn(spent.tokens);
  // What a drafter gains beside another one depends on which it is.
  const int first = Best(1).drafter;
  if (first >= 0 && std::exchange(first_, first) != first) {
    for (DrafterValue& value : values_) value.beside = DrafterValue().beside;
  }
  for (int i = 0; i < num_drafters(); ++i) {
    if (returns.empty() || !returns[i].was_asked()) {
      values_[i].Fade();
    } else {
      LearnGain(i, returns[i]);
      LearnAbsence(i, returns[i]);
    }
  }
  const double catch_up = LearnSeconds(returns, spent);
  if (trial_ && !returns.empty()) {
    LearnTrial(returns[trial_->drafter], spent.other);
  }
  length_ += static_cast<int64_t>(spent.tokens);
  return catch_up;
}

void DrafterPolicy::LearnGain(int drafter, const DrafterReturn& r) {
  DrafterValue& value = values_[drafter];
  // It may have been catching up if it did not answer in the last round.
  const bool missing = r.gain == TreeGain() && !kept_up_[drafter];
  if (r.late == nullptr && (r.attention != Attention::kAwaited || missing)) {
    value.Fade();
    return;
  }
  value.alone.Observe(r.gain.alone);
  if (r.accepted) value.continues.Observe(*r.accepted > 0 ? 1 : 0);
  if (r.level > absl::ZeroDuration()) {
    value.level_seconds.Observe(absl::ToDoubleSeconds(r.level));
  }
  if (first_ >= 0 && drafter != first_) value.beside.Observe(r.gain.beside);
}

// Drafters that share cores wait for each other, so each costs the part of
// their wait that it computed. What a call takes longer after a pause is
// learned apart, as the price of catching up, with what its round takes beyond
// the rest. Cheap drafters share the time that their trees take the
// coordinator; those of the others are part of what their rounds take beyond
// the rest.
double DrafterPolicy::LearnSeconds(absl::Span<const DrafterReturn> returns,
                                   const Spent& spent) {
  struct CpuGroup {
    absl::Duration waited;
    absl::Duration compute;
  };
  std::map<uint64_t, CpuGroup> cpu_groups;
  int cheap = 0;
  for (size_t i = 0; i < returns.size(); ++i) {
    const DrafterReturn& r = returns[i];
    cheap += r.was_asked() && IsCheap(static_cast<int>(i)) ? 1 : 0;
    if (!r.waited || r.attention != Attention::kAwaited) continue;
    CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    cpu_group.waited = std::max(cpu_group.waited, *r.waited);
    cpu_group.compute += r.compute;
  }
  double catch_up = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    const bool asked = !returns.empty() && returns[i].was_asked();
    pauses_[i] = asked ? 0 : pauses_[i] + 1;
    if (!asked) {
      kept_up_[i] = false;
      continue;
    }
    const DrafterReturn& r = returns[i];
    values_[i].cpu_group = r.cpu_group;
    values_[i].own_cores = !r.shares_verifier_cores;
    const bool kept_up = kept_up_[i] || IsCheap(i);
    // A drafter that was waited for in vain still owes its answer.
    if (!r.in_vain) kept_up_[i] = r.waited.has_value();
    if (!r.waited || r.attention != Attention::kAwaited) continue;
    const CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    const bool alone =
        r.cpu_group == 0 || cpu_group.compute <= absl::ZeroDuration();
    double seconds = absl::ToDoubleSeconds(
        alone ? *r.waited
              : cpu_group.waited *
                    absl::FDivDuration(r.compute, cpu_group.compute));
    if (IsCheap(i)) seconds += spent.handling / std::max(1, cheap);
    if (!kept_up) {
      catch_up += LearnCatchUp(i, seconds);
      continue;
    }
    seen_[i] = length_;
    values_[i].seconds.Observe(seconds);
    values_[i].shared_seconds.Observe(r.shares_verifier_cores ? seconds : 0);
  }
  if (catch_up > 0) return catch_up + std::max(0.0, spent.other);
  LearnOtherSeconds(returns, spent.other);
  return 0;
}

// A call took `seconds` after a pause. Returns how much of it catching up took.
double DrafterPolicy::LearnCatchUp(int drafter, double seconds) {
  DrafterValue& value = values_[drafter];
  const double catch_up = std::max(0.0, seconds - value.seconds.mean());
  const double tokens = Backlog(drafter);
  seen_[drafter] = length_;
  if (value.seconds.is_known() && tokens >= kLongPause) {
    value.catch_up_seconds.Observe(catch_up / tokens);
  }
  return catch_up;
}

// Networks that share a round share what it takes beyond what is known.
void DrafterPolicy::LearnOtherSeconds(absl::Span<const DrafterReturn> returns,
                                      double other_seconds) {
  std::vector<int> networks;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!returns.empty() && returns[i].was_asked() &&
        values_[i].seconds.is_known() && !IsCheap(i)) {
      networks.push_back(i);
    }
  }
  for (int i : networks) {
    values_[i].other_seconds.Observe(other_seconds /
                                     static_cast<double>(networks.size()));
  }
}

// One that does not answer for long keeps no other from being asked.
void DrafterPolicy::LearnAbsence(int drafter, const DrafterReturn& r) {
  const bool answered = r.late != nullptr || (r.waited && !r.in_vain);
  if (answered) {
    misses_[drafter] = 0;
  } else if (++misses_[drafter] >= kMaxMisses) {
    misses_[drafter] = 0;
    back_[drafter] = round_ + kAbsence;
  }
}

// A trial costs the time that its round took beyond one of plain decoding and
// the nodes' rows, less what it gained. Sessions that share passes and cores
// with it lose as much.
void DrafterPolicy::LearnTrial(const DrafterReturn& r, double other_seconds) {
  const int drafter = trial_->drafter;
  if (!r.was_asked()) return;
  const double sessions = r.shares_verifier_cores ? 1 + price_.others : 1;
  const bool waited = r.attention == Attention::kAwaited && r.waited;
  double seconds = 0;
  if (waited) {
    seconds = absl::ToDoubleSeconds(*r.waited) + other_seconds;
  } else if (r.shares_verifier_cores) {
    seconds = absl::ToDoubleSeconds(r.compute);
  }
  const double gain =
      nothing_ *
      (first_ >= 0 && first_ != drafter ? r.gain.beside : r.gain.alone);
  budget_.Spend(price_.tokens_per_second * sessions * seconds -
                (waited ? gain : 0));
  if (waited && ++trial_->answers == kTrialAnswers) trial_.reset();
}

}  // namespace espalier::coordinator
