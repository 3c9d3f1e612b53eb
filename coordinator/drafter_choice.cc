#include "coordinator/drafter_choice.h"

#include <algorithm>
#include <map>
#include <utility>

namespace espalier::coordinator {
namespace {

constexpr int64_t kDwell = 4;            // rounds between two changes
constexpr double kWorthAChange = 0.05;   // tokens a round
constexpr double kNextToNothing = 0.05;  // tokens

using Attention = DraftCall::Attention;

bool ForetoldAToken(absl::Span<const DrafterReturn> returns) {
  return std::any_of(returns.begin(), returns.end(),
                     [](const DrafterReturn& r) {
                       return r.attention == Attention::kAwaited && r.active &&
                              r.accepted.value_or(0) > 0;
                     });
}

}  // namespace

DrafterChoice::DrafterChoice(std::vector<DraftWorth> prior)
    : worth_(std::move(prior)),
      sites_(worth_.size(), 0),
      active_(worth_.size(), true),
      kept_up_(worth_.size(), false) {}

bool DrafterChoice::IsQuick(int drafter, double tokens_per_second) const {
  return worth_[drafter].seconds.mean() * tokens_per_second <= kNextToNothing;
}

bool DrafterChoice::IsWorthwhile(int drafter, double nothing_else,
                                 double tokens_per_second) const {
  const DraftWorth& worth = worth_[drafter];
  return worth.alone.mean() * nothing_else >
         worth.seconds.mean() * tokens_per_second;
}

absl::Duration DrafterChoice::Patience(int drafter,
                                       double tokens_per_second) const {
  if (tokens_per_second <= 0) return absl::InfiniteDuration();
  const DraftWorth& worth = worth_[drafter];
  const double most = std::max({0.0, worth.alone.mean(), worth.beside.mean()});
  return absl::Seconds(most / tokens_per_second);
}

void DrafterChoice::Learn(absl::Span<const DrafterReturn> returns,
                          double tokens_per_second) {
  if (probes()) {
    unforetold_ = 0;
    probe_after_ = std::min(2 * probe_after_, kProbeLate);
  }
  LearnGains(returns);
  LearnSeconds(returns);
  ++round_;
  if (round_ - last_change_ >= kDwell) Reconsider(tokens_per_second);
  only_quick_ = true;
  for (int i = 0; i < num_drafters(); ++i) {
    only_quick_ &= !worth_[i].asked || IsQuick(i, tokens_per_second);
  }
}

void DrafterChoice::LearnGains(absl::Span<const DrafterReturn> returns) {
  if (!ForetoldAToken(returns)) ++unforetold_;
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterReturn& r = returns[i];
    active_[i] = r.active;
    if (!r.active) continue;
    DraftWorth& worth = worth_[i];
    // It may have had to catch up with the text.
    const bool missing = r.gain == TreeGain() && !kept_up_[i];
    if (r.late != nullptr || (r.attention == Attention::kAwaited && !missing)) {
      worth.alone.Observe(r.gain.alone);
      worth.beside.Observe(r.gain.beside);
    } else {
      worth.alone.Fade();
      worth.beside.Fade();
    }
  }
}

// Drafters that share cores wait for each other, so each costs the part of
// their wait that it computed. One that was not asked in the round before also
// catches up with the text, which it would not if it were.
void DrafterChoice::LearnSeconds(absl::Span<const DrafterReturn> returns) {
  struct Site {
    absl::Duration waited;
    absl::Duration compute;
  };
  std::map<uint64_t, Site> sites;
  for (const DrafterReturn& r : returns) {
    if (!r.waited) continue;
    Site& site = sites[r.site];
    site.waited = std::max(site.waited, *r.waited);
    site.compute += r.compute;
  }
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterReturn& r = returns[i];
    sites_[i] = r.site;
    const bool kept_up = kept_up_[i];
    // What was waited for in vain still has to come.
    if (!r.in_vain) kept_up_[i] = r.waited.has_value();
    if (!r.waited || !kept_up) continue;
    const Site& site = sites[r.site];
    const bool alone = r.site == 0 || site.compute <= absl::ZeroDuration();
    worth_[i].seconds.Observe(absl::ToDoubleSeconds(
        alone ? *r.waited
              : site.waited * absl::FDivDuration(r.compute, site.compute)));
  }
}

double DrafterChoice::Seconds(const std::vector<bool>& asked) const {
  std::map<uint64_t, double> by_site;
  double longest = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!active_[i] || !asked[i]) continue;
    const double seconds = worth_[i].seconds.mean();
    longest = std::max(
        longest, sites_[i] == 0 ? seconds : by_site[sites_[i]] += seconds);
  }
  return longest;
}

double DrafterChoice::Lead(int drafter, int without) const {
  double best = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (i == drafter || i == without || !active_[i] || !worth_[i].asked) {
      continue;
    }
    best = std::max(best, worth_[i].alone.mean());
  }
  return std::max(0.0, worth_[drafter].alone.mean() - best);
}

double DrafterChoice::TokensWithChanged(int i, int j) const {
  if (i == j) {
    const double tokens = worth_[i].beside.mean();
    return worth_[i].asked ? -tokens : tokens;
  }
  if (!worth_[i].asked) std::swap(i, j);
  return Lead(j, i) - std::max(Lead(i, i), worth_[i].beside.mean());
}

// Makes the one change that gains most, if any does: of i, or of i for j. The
// quick ones cost nothing to ask: their nodes that do not pay are taken off.
void DrafterChoice::Reconsider(double tokens_per_second) {
  std::vector<bool> asked;
  std::vector<bool> quick;
  for (int i = 0; i < num_drafters(); ++i) {
    quick.push_back(IsQuick(i, tokens_per_second));
    worth_[i].asked |= quick[i];
    asked.push_back(worth_[i].asked);
  }
  const double seconds = Seconds(asked);
  std::vector<bool> best = asked;
  double best_gain = kWorthAChange;
  for (int i = 0; i < num_drafters(); ++i) {
    for (int j = i; j < num_drafters(); ++j) {
      if (!active_[i] || !active_[j] || quick[i] || quick[j]) continue;
      if (i != j && asked[i] == asked[j]) continue;
      std::vector<bool> changed = asked;
      changed[i] = !asked[i];
      changed[j] = i == j ? changed[i] : !asked[j];
      const double gain = TokensWithChanged(i, j) -
                          tokens_per_second * (Seconds(changed) - seconds);
      if (gain <= best_gain) continue;
      best = std::move(changed);
      best_gain = gain;
    }
  }
  if (best != asked) Change(best);
}

// What a drafter brings beside others depends on who they are.
void DrafterChoice::Change(const std::vector<bool>& asked) {
  std::vector<bool> changed(worth_.size());
  int num_changed = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    changed[i] = worth_[i].asked != asked[i];
    num_changed += changed[i] ? 1 : 0;
    worth_[i].asked = asked[i];
  }
  for (int i = 0; i < num_drafters(); ++i) {
    const bool others_changed = num_changed > (changed[i] ? 1 : 0);
    if (others_changed) worth_[i].beside.Restart(Lead(i, i));
  }
  last_change_ = round_;
  probe_after_ = kProbeSoon;
}

}  // namespace espalier::coordinator
