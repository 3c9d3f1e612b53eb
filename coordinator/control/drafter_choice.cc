#include "coordinator/control/drafter_choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace espalier::coordinator {
namespace {

constexpr int64_t kDwell = 4;           // rounds between two changes
constexpr int64_t kTrial = 8;           // rounds of a drafter that is tried
constexpr double kWorthAChange = 0.05;  // tokens a round
constexpr double kNextToNothing = 0.1;  // tokens
// What a quick drafter that does not pay may cost.
constexpr double kIdleCost = 0.005;  // tokens a round
// Probes are no rarer than this if the budget allows them.
constexpr int64_t kProbeInterval = 32;  // rounds
constexpr int64_t kProbeTries = 4;      // rounds of one probe
// The price of time may change meanwhile.
constexpr int64_t kMostRest = 32;  // rounds

using Attention = DraftCall::Attention;

// What the drafter computed on the verifier's cores.
double SharedSeconds(const DrafterReturn& r) {
  return r.shares_verifier_cores ? absl::ToDoubleSeconds(r.compute) : 0;
}

// A probe includes catching up, so it takes longer than a draft usually does.
// If it took less than is believed, the machine was busy when that was
// measured.
void LearnProbeSeconds(const DrafterReturn& r, DrafterValue& value) {
  const double seconds = absl::ToDoubleSeconds(r.compute);
  const bool is_known = r.late != nullptr && seconds > 0;
  if (!is_known || seconds >= value.seconds.mean()) return;
  value.seconds.Doubt();
  value.seconds.Observe(seconds);
  value.shared_seconds.Doubt();
  value.shared_seconds.Observe(SharedSeconds(r));
}

// None will compute beside it: until its time is measured, it is believed to be
// so short that the drafter is asked.
void GuessSeconds(DrafterValue& value) {
  constexpr double kPart = 0.5;
  value.seconds.Guess(kPart * value.seconds.mean());
  value.shared_seconds.Guess(kPart * value.shared_seconds.mean());
}

bool PredictedAToken(absl::Span<const DrafterReturn> returns) {
  return std::any_of(returns.begin(), returns.end(),
                     [](const DrafterReturn& r) {
                       return r.attention == Attention::kAwaited && r.active &&
                              r.accepted.value_or(0) > 0;
                     });
}

}  // namespace

DrafterChoice::DrafterChoice(std::vector<DrafterValue> prior,
                             std::vector<ProbeBudget*> probes)
    : values_(std::move(prior)),
      probes_(std::move(probes)),
      cpu_groups_(values_.size(), 0),
      active_(values_.size(), true),
      kept_up_(values_.size(), false),
      pauses_(values_.size(), 0) {}

double DrafterChoice::Cost(int drafter, TimePrice price) const {
  const DrafterValue& value = values_[drafter];
  return price.tokens_per_second *
         (value.seconds.mean() + price.others * value.shared_seconds.mean());
}

bool DrafterChoice::IsQuick(int drafter, TimePrice price) const {
  return Cost(drafter, price) <= kNextToNothing;
}

bool DrafterChoice::IsDue(int drafter, TimePrice price) const {
  return RoundsToTurn(drafter, price) == 0;
}

int64_t DrafterChoice::RoundsToTurn(int drafter, TimePrice price) const {
  if (IsWorthwhile(drafter, /*nothing_else=*/1, price)) return 0;
  const auto turn =
      static_cast<int64_t>(std::ceil(Cost(drafter, price) / kIdleCost)) - 1;
  return std::max<int64_t>(0, turn - pauses_[drafter]);
}

bool DrafterChoice::IsWorthwhile(int drafter, double nothing_else,
                                 TimePrice price) const {
  return values_[drafter].alone.mean() * nothing_else > Cost(drafter, price);
}

bool DrafterChoice::Probes(int drafter, TimePrice price) const {
  return !values_[drafter].asked && RoundsToProbe(drafter, price) == 0;
}

// If the budget forbids it now, it may allow it after any round.
int64_t DrafterChoice::RoundsToProbe(int drafter, TimePrice price) const {
  const ProbeTimer& probe = values_[drafter].probe;
  const int64_t rounds = std::max<int64_t>(0, probe.interval - probe.rounds);
  if (rounds > 0 || probe.tries > 0) return rounds;
  return probes_[drafter]->Allows(ExpectedProbeCost(drafter, price)) ? 0 : 1;
}

void DrafterChoice::BeginProbe(int drafter, TimePrice price) {
  ProbeTimer& probe = values_[drafter].probe;
  if (probe.tries > 0) return;
  // It was not asked yet if it had to wait for features.
  probes_[drafter]->Spend(-probe.spent);
  probe.spent = ExpectedProbeCost(drafter, price);
  probes_[drafter]->Spend(probe.spent);
}

double DrafterChoice::ProbeCost(double shared_seconds, TimePrice price) {
  return price.tokens_per_second * (1 + price.others) * shared_seconds;
}

double DrafterChoice::ExpectedProbeCost(int drafter, TimePrice price) const {
  const DrafterValue& value = values_[drafter];
  return ProbeCost(std::max(value.probe.seconds, value.shared_seconds.mean()),
                   price);
}

int64_t DrafterChoice::RoundsToRest(TimePrice price) const {
  int64_t rest = kMostRest;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!values_[i].asked) {
      rest = std::min(rest, RoundsToProbe(i, price));
    } else if (IsQuick(i, price)) {
      rest = std::min(rest, RoundsToTurn(i, price));
    } else {
      return 0;
    }
  }
  return rest;
}

void DrafterChoice::LearnRest() {
  for (int i = 0; i < num_drafters(); ++i) {
    ++values_[i].probe.rounds;
    ++pauses_[i];
    kept_up_[i] = false;
    if (!active_[i]) continue;
    values_[i].alone.Fade();
    values_[i].beside.Fade();
  }
  ++round_;
}

absl::Duration DrafterChoice::Patience(int drafter,
                                       double tokens_per_second) const {
  if (tokens_per_second <= 0) return absl::InfiniteDuration();
  const DrafterValue& value = values_[drafter];
  const double most = std::max({0.0, value.alone.mean(), value.beside.mean()});
  return absl::Seconds(most / tokens_per_second);
}

void DrafterChoice::Learn(absl::Span<const DrafterReturn> returns,
                          TimePrice price) {
  CountProbes(returns, price);
  CountPauses(returns);
  LearnGains(returns);
  LearnSeconds(returns);
  ++round_;
  if (round_ - last_change_ >= kDwell) Reconsider(price);
}

void DrafterChoice::CountProbes(absl::Span<const DrafterReturn> returns,
                                TimePrice price) {
  const bool predicted = PredictedAToken(returns);
  for (int i = 0; i < num_drafters(); ++i) {
    ProbeTimer& probe = values_[i].probe;
    if (!predicted) ++probe.rounds;
    if (returns[i].attention != Attention::kAsked) continue;
    const bool answered = returns[i].late != nullptr;
    if (!answered && ++probe.tries < kProbeTries) continue;
    if (answered) {
      probe.seconds = SharedSeconds(returns[i]);
      probes_[i]->Spend(ProbeCost(probe.seconds, price) - probe.spent);
    }
    probe = {.interval = std::min(2 * probe.interval, kProbeInterval),
             .seconds = probe.seconds};
  }
}

void DrafterChoice::CountPauses(absl::Span<const DrafterReturn> returns) {
  for (int i = 0; i < num_drafters(); ++i) {
    const bool asked = returns[i].attention != Attention::kNone;
    pauses_[i] = asked ? 0 : pauses_[i] + 1;
  }
}

void DrafterChoice::LearnGains(absl::Span<const DrafterReturn> returns) {
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterReturn& r = returns[i];
    active_[i] = r.active;
    if (!r.active) continue;
    DrafterValue& value = values_[i];
    // A drafter that did not answer in the last round may have been catching
    // up.
    const bool missing = r.gain == TreeGain() && !kept_up_[i];
    if (r.late != nullptr || (r.attention == Attention::kAwaited && !missing)) {
      value.alone.Observe(r.gain.alone);
      value.beside.Observe(r.gain.beside);
    } else {
      value.alone.Fade();
      value.beside.Fade();
    }
  }
}

// Drafters that share cores wait for each other, so each costs the part of
// their wait that it computed. A drafter that was not asked in the round before
// also catches up with the text, which it would not have to do if it were
// always asked; such rounds are not counted.
void DrafterChoice::LearnSeconds(absl::Span<const DrafterReturn> returns) {
  struct CpuGroup {
    absl::Duration waited;
    absl::Duration compute;
    int drafters = 0;
  };
  std::map<uint64_t, CpuGroup> cpu_groups;
  for (const DrafterReturn& r : returns) {
    if (!r.waited) continue;
    CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    cpu_group.waited = std::max(cpu_group.waited, *r.waited);
    cpu_group.compute += r.compute;
    ++cpu_group.drafters;
  }
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterReturn& r = returns[i];
    cpu_groups_[i] = r.cpu_group;
    const bool kept_up = kept_up_[i];
    // A drafter that was waited for in vain still owes its answer.
    if (!r.in_vain) kept_up_[i] = r.waited.has_value();
    if (r.attention == Attention::kAsked) LearnProbeSeconds(r, values_[i]);
    if (!r.waited || !kept_up) continue;
    const CpuGroup& cpu_group = cpu_groups[r.cpu_group];
    const bool alone =
        r.cpu_group == 0 || cpu_group.compute <= absl::ZeroDuration();
    const absl::Duration share =
        alone ? *r.waited
              : cpu_group.waited *
                    absl::FDivDuration(r.compute, cpu_group.compute);
    values_[i].seconds.Observe(absl::ToDoubleSeconds(share));
    values_[i].shared_seconds.Observe(
        r.shares_verifier_cores ? absl::ToDoubleSeconds(share) : 0);
    values_[i].timed_beside_others = !alone && cpu_group.drafters > 1;
  }
}

double DrafterChoice::Cost(const std::vector<bool>& asked,
                           TimePrice price) const {
  std::map<uint64_t, double> by_cpu_group;
  double longest = 0;
  double shared = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!active_[i] || !asked[i]) continue;
    const double seconds = values_[i].seconds.mean();
    longest = std::max(longest, cpu_groups_[i] == 0
                                    ? seconds
                                    : by_cpu_group[cpu_groups_[i]] += seconds);
    shared += values_[i].shared_seconds.mean();
  }
  return price.tokens_per_second * (longest + price.others * shared);
}

double DrafterChoice::Lead(int drafter, int without) const {
  double best = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (i == drafter || i == without || !active_[i] || !values_[i].asked) {
      continue;
    }
    best = std::max(best, values_[i].alone.mean());
  }
  return std::max(0.0, values_[drafter].alone.mean() - best);
}

double DrafterChoice::TokensWithChanged(int i, int j) const {
  if (i == j) {
    const double tokens = values_[i].beside.mean();
    return values_[i].asked ? -tokens : tokens;
  }
  if (!values_[i].asked) std::swap(i, j);
  return Lead(j, i) - std::max(Lead(i, i), values_[i].beside.mean());
}

void DrafterChoice::Reconsider(TimePrice price) {
  if (!ChangeOne(price)) TryOneAlone(price);
}

// Makes the one change that gains most, if any gains: switches i, or exchanges
// i for j. Quick drafters cost nothing to ask: their nodes that do not pay are
// cut.
bool DrafterChoice::ChangeOne(TimePrice price) {
  std::vector<bool> asked;
  std::vector<bool> quick;
  for (int i = 0; i < num_drafters(); ++i) {
    quick.push_back(IsQuick(i, price));
    values_[i].asked |= quick[i];
    asked.push_back(values_[i].asked);
  }
  const double cost = Cost(asked, price);
  std::vector<bool> best = asked;
  double best_gain = kWorthAChange;
  for (int i = 0; i < num_drafters(); ++i) {
    for (int j = i; j < num_drafters(); ++j) {
      if (!active_[i] || !active_[j] || quick[i] || quick[j]) continue;
      if (i != j && asked[i] == asked[j]) continue;
      std::vector<bool> changed = asked;
      changed[i] = !asked[i];
      changed[j] = i == j ? changed[i] : !asked[j];
      const double gain =
          TokensWithChanged(i, j) - (Cost(changed, price) - cost);
      if (gain <= best_gain) continue;
      best = std::move(changed);
      best_gain = gain;
    }
  }
  if (best == asked) return false;
  Change(best);
  return true;
}

void DrafterChoice::TryOneAlone(TimePrice price) {
  std::vector<bool> asked;
  int best = -1;
  double best_gain = kWorthAChange;
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterValue& value = values_[i];
    asked.push_back(value.asked);
    if (!active_[i] || IsQuick(i, price)) continue;
    if (value.asked) return;
    const double gain = value.alone.mean();
    if (!value.timed_beside_others || gain <= best_gain) continue;
    best = i;
    best_gain = gain;
  }
  if (best < 0) return;
  asked[best] = true;
  Change(asked);
  last_change_ += kTrial - kDwell;
  values_[best].timed_beside_others = false;
  GuessSeconds(values_[best]);
}

// A drafter's gain beside others depends on which these are.
void DrafterChoice::Change(const std::vector<bool>& asked) {
  std::vector<bool> changed(values_.size());
  int num_changed = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    changed[i] = values_[i].asked != asked[i];
    num_changed += changed[i] ? 1 : 0;
    values_[i].asked = asked[i];
    if (changed[i]) values_[i].probe = {.seconds = values_[i].probe.seconds};
  }
  for (int i = 0; i < num_drafters(); ++i) {
    const bool others_changed = num_changed > (changed[i] ? 1 : 0);
    if (others_changed) values_[i].beside.Restart(Lead(i, i));
  }
  last_change_ = round_;
}

}  // namespace espalier::coordinator
