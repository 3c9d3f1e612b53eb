#include "coordinator/drafter_choice.h"

#include <algorithm>
#include <map>
#include <utility>

namespace espalier::coordinator {
namespace {

constexpr int64_t kProbeAfter = 8;       // rounds without a token
constexpr int64_t kMostProbeAfter = 64;  // if no probe changes anything
constexpr int64_t kDwell = 4;            // rounds between two changes
constexpr double kWorthAChange = 0.02;   // tokens a round
constexpr double kNextToNothing = 0.05;  // tokens

using Attention = DraftCall::Attention;

// Of the drafters that the round stood still for, leaving one out (-1: none).
int64_t Reach(absl::Span<const DrafterReturn> returns, int without) {
  int64_t reach = 0;
  for (int i = 0; i < static_cast<int>(returns.size()); ++i) {
    const DrafterReturn& r = returns[i];
    if (i == without || r.attention != Attention::kAwaited || !r.active) {
      continue;
    }
    reach = std::max(reach, r.accepted.value_or(0));
  }
  return reach;
}

}  // namespace

DrafterChoice::DrafterChoice(std::vector<DraftWorth> prior)
    : worth_(std::move(prior)),
      sites_(worth_.size(), 0),
      active_(worth_.size(), true),
      kept_up_(worth_.size(), false),
      probe_after_(kProbeAfter) {}

bool DrafterChoice::IsQuick(int drafter, double tokens_per_second) const {
  return worth_[drafter].seconds.mean() * tokens_per_second <= kNextToNothing;
}

bool DrafterChoice::IsWorthwhile(int drafter, double nothing_else,
                                 double tokens_per_second) const {
  const DraftWorth& worth = worth_[drafter];
  return worth.foretold.mean() * nothing_else >
         worth.seconds.mean() * tokens_per_second;
}

absl::Duration DrafterChoice::Patience(int drafter,
                                       double tokens_per_second) const {
  if (tokens_per_second <= 0) return absl::InfiniteDuration();
  return absl::Seconds(std::max(0.0, worth_[drafter].tokens.mean()) /
                       tokens_per_second);
}

void DrafterChoice::Learn(absl::Span<const DrafterReturn> returns,
                          double tokens_per_second) {
  if (probes()) {
    unforetold_ = 0;
    probe_after_ = std::min(2 * probe_after_, kMostProbeAfter);
  }
  LearnTokens(returns);
  LearnSeconds(returns);
  ++round_;
  if (round_ - last_change_ >= kDwell) Reconsider(tokens_per_second);
}

void DrafterChoice::LearnTokens(absl::Span<const DrafterReturn> returns) {
  const int64_t reach = Reach(returns, -1);
  if (reach == 0) ++unforetold_;
  for (int i = 0; i < num_drafters(); ++i) {
    const DrafterReturn& r = returns[i];
    active_[i] = r.active;
    if (!r.active) continue;
    if (r.attention == Attention::kNone && !r.accepted) {
      worth_[i].tokens.Fade();
      worth_[i].foretold.Fade();
    }
    if (r.attention == Attention::kAwaited) {
      worth_[i].tokens.Observe(static_cast<double>(reach - Reach(returns, i)));
    } else if (r.accepted) {
      worth_[i].tokens.Observe(
          static_cast<double>(std::max<int64_t>(0, *r.accepted - reach)));
    }
    if (r.accepted) {
      worth_[i].foretold.Observe(static_cast<double>(*r.accepted));
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
    kept_up_[i] = r.waited.has_value();
    if (!r.waited || !kept_up) continue;
    const Site& site = sites[r.site];
    const bool alone = r.site == 0 || site.compute <= absl::ZeroDuration();
    worth_[i].seconds.Observe(absl::ToDoubleSeconds(
        alone ? *r.waited
              : site.waited * absl::FDivDuration(r.compute, site.compute)));
  }
}

double DrafterChoice::SecondsWithChanged(int other) const {
  std::map<uint64_t, double> by_site;
  double longest = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!active_[i] || worth_[i].asked == (i == other)) continue;
    const double seconds = worth_[i].seconds.mean();
    longest = std::max(
        longest, sites_[i] == 0 ? seconds : by_site[sites_[i]] += seconds);
  }
  return longest;
}

// Makes the one change that gains most, if any does.
void DrafterChoice::Reconsider(double tokens_per_second) {
  const double now = SecondsWithChanged(-1);
  int best = -1;
  double best_gain = kWorthAChange;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!active_[i]) continue;
    const double seconds = SecondsWithChanged(i) - now;
    const double tokens = worth_[i].tokens.mean();
    const double gain =
        (worth_[i].asked ? -tokens : tokens) - tokens_per_second * seconds;
    if (gain > best_gain) {
      best = i;
      best_gain = gain;
    }
  }
  if (best < 0) return;
  worth_[best].asked = !worth_[best].asked;
  last_change_ = round_;
  probe_after_ = kProbeAfter;
}

}  // namespace espalier::coordinator
