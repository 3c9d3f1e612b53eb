#include "coordinator/control/drafter_policy.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/control/wait_shares.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kUse = 0.5;           // standard errors below the mean
constexpr double kIdleCost = 0.01;     // tokens a round
constexpr double kWorthATrial = 0.02;  // tokens a round
constexpr double kMinNothing = 0.3;    // for a trial beside cheap drafters
constexpr int kTrialAnswers = 4;
constexpr int kTrialRounds = 12;

}  // namespace

DrafterPolicy::DrafterPolicy(const std::vector<DrafterValue>& prior,
                             TrialBudget* budget)
    : drafters_(prior.begin(), prior.end()), budget_(*budget) {}

void DrafterPolicy::BeginRound(const TimePrice& price, int64_t length) {
  price_ = price;
  nothing_ = 1;
  for (SessionDrafter& drafter : drafters_) drafter.BeginRound(price, length);
}

// A cheap drafter that does not pay is asked so seldom that this costs next to
// nothing: what it gains changes within a text. It can gain less where sessions
// share passes.
bool DrafterPolicy::IsDue(const SessionDrafter& drafter) const {
  if (!drafter.is_there() || !drafter.is_cheap()) return false;
  const double idle_cost = kIdleCost / std::sqrt(1 + price_.others);
  return drafter.Worth(1, -kUse) > 0 ||
         idle_cost * static_cast<double>(drafter.pause() + 1) >=
             drafter.Cost(0);
}

// The best drafter that is not cheap; none if none pays.
DrafterPolicy::Pick DrafterPolicy::Best(double nothing) const {
  Pick best;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!drafters_[i].is_there() || drafters_[i].is_cheap()) continue;
    const double worth = drafters_[i].Worth(nothing, -kUse);
    if (worth > best.worth) best = {i, worth};
  }
  return best;
}

DrafterPolicy::Pick DrafterPolicy::SecondTo(int first, double nothing) const {
  Pick best;
  for (int i = 0; i < num_drafters(); ++i) {
    if (i == first || !drafters_[i].is_there() || drafters_[i].is_cheap())
      continue;
    const double worth =
        drafters_[i].WorthBeside(drafters_[first], nothing, -kUse);
    if (worth > best.worth) best = {i, worth};
  }
  return best;
}

// What the drafter may gain beside those that are used, or in place of one; 0:
// it is used.
double DrafterPolicy::HopeOf(int drafter, const Pick& used) const {
  constexpr double kTry = SessionDrafter::kTry;
  const SessionDrafter& hoped_for = drafters_[drafter];
  if (!hoped_for.is_there() || hoped_for.is_cheap() ||
      drafter == used.drafter) {
    return 0;
  }
  const double alone = hoped_for.Worth(1, kTry);
  if (used.drafter < 0) return hoped_for.Worth(1, -kUse) > 0 ? 0 : alone;
  const SessionDrafter& first = drafters_[used.drafter];
  if (hoped_for.WorthBeside(first, 1, -kUse) > 0) return 0;
  return std::max(alone - used.worth, hoped_for.WorthBeside(first, 1, kTry));
}

void DrafterPolicy::ChooseTrial() {
  const Pick used = Best(1);
  double most = kWorthATrial;
  for (int i = 0; i < num_drafters(); ++i) {
    const double hope = HopeOf(i, used);
    if (hope <= most || !budget_.Allows(drafters_[i].CatchUpCost())) continue;
    most = hope;
    trial_ = {.drafter = i};
  }
}

void DrafterPolicy::ConsiderTrial() {
  if (!trial_) ChooseTrial();
  if (trial_ && (!drafters_[trial_->drafter].is_there() ||
                 drafters_[trial_->drafter].is_cheap() ||
                 ++trial_->rounds > kTrialRounds)) {
    trial_.reset();
  }
}

bool DrafterPolicy::Rests(bool cheap_only) const {
  if (!cheap_only && (trial_ || Best(1).drafter >= 0)) return false;
  for (int i = 0; i < num_drafters(); ++i) {
    if (IsDue(drafters_[i])) return false;
  }
  return true;
}

std::vector<DraftCall> DrafterPolicy::NoCalls() const {
  return std::vector<DraftCall>(num_drafters(), {Attention::kNone});
}

std::vector<DraftCall> DrafterPolicy::AllCalls() const {
  std::vector<DraftCall> calls = NoCalls();
  for (int i = 0; i < num_drafters(); ++i) {
    if (drafters_[i].is_there()) calls[i] = drafters_[i].Call();
  }
  return calls;
}

std::vector<DraftCall> DrafterPolicy::FirstCalls() const {
  std::vector<DraftCall> calls = NoCalls();
  for (int i = 0; i < num_drafters(); ++i) {
    if (IsDue(drafters_[i])) calls[i] = drafters_[i].Call();
  }
  return calls;
}

std::vector<DraftCall> DrafterPolicy::FurtherCalls(double nothing) {
  std::vector<DraftCall> calls = NoCalls();
  nothing_ = nothing;
  const int first = Best(nothing).drafter;
  if (first >= 0) {
    calls[first] = drafters_[first].Call();
    const int second = SecondTo(first, nothing).drafter;
    if (second >= 0) calls[second] = drafters_[second].Call();
  }
  if (trial_ && nothing >= kMinNothing) {
    calls[trial_->drafter] = drafters_[trial_->drafter].Call();
  }
  return calls;
}

double DrafterPolicy::Learn(absl::Span<const DrafterReturn> returns,
                            const Spent& spent) {
  budget_.Earn(spent.tokens);
  // What a drafter gains beside another one depends on which it is.
  const int first = Best(1).drafter;
  if (first >= 0 && std::exchange(first_, first) != first) {
    for (SessionDrafter& drafter : drafters_) drafter.ForgetBeside();
  }
  if (returns.empty()) {
    for (SessionDrafter& drafter : drafters_) drafter.LearnPause();
    return 0;
  }
  const double catch_up = LearnDrafters(returns, spent);
  if (trial_) LearnTrial(returns[trial_->drafter], spent.other);
  return catch_up;
}

// What a round takes beyond the rest is a part of catching up, if any network
// did. Cheap drafters share the time that their trees take the coordinator;
// that of the others is a part of what their rounds take beyond the rest.
double DrafterPolicy::LearnDrafters(absl::Span<const DrafterReturn> returns,
                                    const Spent& spent) {
  int cheap = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    cheap += returns[i].was_asked() && drafters_[i].is_cheap() ? 1 : 0;
  }
  const std::vector<std::optional<double>> shares = WaitShares(returns);
  double catch_up = 0;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!returns[i].was_asked()) {
      drafters_[i].LearnPause();
      continue;
    }
    catch_up += drafters_[i].Learn(
        returns[i], {.beside = first_ >= 0 && i != first_,
                     .seconds = shares[i],
                     .handling = spent.handling / std::max(1, cheap)});
  }
  if (catch_up > 0) return catch_up + std::max(0.0, spent.other);
  LearnOtherSeconds(returns, spent.other);
  return 0;
}

// Networks that share a round share what it takes beyond what is known.
void DrafterPolicy::LearnOtherSeconds(absl::Span<const DrafterReturn> returns,
                                      double other_seconds) {
  std::vector<SessionDrafter*> networks;
  for (int i = 0; i < num_drafters(); ++i) {
    SessionDrafter& drafter = drafters_[i];
    if (returns[i].was_asked() && drafter.value().seconds.is_known() &&
        !drafter.is_cheap()) {
      networks.push_back(&drafter);
    }
  }
  for (SessionDrafter* drafter : networks) {
    drafter->LearnOtherSeconds(other_seconds /
                               static_cast<double>(networks.size()));
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
