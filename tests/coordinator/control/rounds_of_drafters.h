#ifndef ESPALIER_TESTS_COORDINATOR_CONTROL_ROUNDS_OF_DRAFTERS_H_
#define ESPALIER_TESTS_COORDINATOR_CONTROL_ROUNDS_OF_DRAFTERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/control/drafter_choice.h"
#include "tests/coordinator/control/choice_with_budget.h"

namespace espalier::coordinator {

inline constexpr double kPrice = 100;  // tokens a second

struct Habit {
  int64_t accepted = 0;
  absl::Duration takes;
  uint64_t cpu_group = 0;
  bool shares_verifier_cores = false;
};

// Rounds in which each drafter always behaves the same.
class Rounds {
 public:
  explicit Rounds(std::vector<Habit> all)
      : habits(std::move(all)),
        choice(std::vector<DrafterValue>(habits.size(), DrafterValue(16))) {}

  void Run(int rounds) {
    for (int i = 0; i < rounds; ++i) RunOne(/*probe_all=*/false);
  }
  // A round in which all drafters answer.
  void Probe() { RunOne(/*probe_all=*/true); }
  // Rounds until the drafter, which is not asked, is probed.
  int UntilProbe(int drafter) {
    int rounds = 0;
    for (; !choice.Probes(drafter, price()) && rounds < 10000; ++rounds) Run(1);
    return rounds;
  }
  DrafterChoice::TimePrice price() const { return {kPrice, other_sessions}; }

  std::vector<Habit> habits;
  ChoiceWithBudget choice;
  double other_sessions = 0;
  // Factor on a drafter's time for each other one that computes.
  double company_slows = 1;
  int num_asked = 0;

 private:
  void RunOne(bool probe_all) {
    std::vector<DrafterReturn> returns;
    const double slower = std::pow(company_slows, NumAwaited() - 1);
    for (size_t d = 0; d < habits.size(); ++d) {
      DrafterReturn& r = returns.emplace_back();
      r.cpu_group = habits[d].cpu_group;
      r.shares_verifier_cores = habits[d].shares_verifier_cores;
      const bool probed = probe_all || choice.Probes(d, price());
      if (probed) choice.BeginProbe(d, price());
      if (!choice.asks(d) && !probed) continue;
      ++num_asked;
      r.attention = choice.asks(d) ? DraftCall::Attention::kAwaited
                                   : DraftCall::Attention::kAsked;
      r.accepted = habits[d].accepted;
      if (!choice.asks(d)) r.late = &late;
      r.gain = GainOf(d);
      r.compute = habits[d].takes * (choice.asks(d) ? slower : 1);
      r.waited = r.compute;
    }
    choice.Earn(1 + other_sessions);
    choice.Learn(returns, price());
  }

  int NumAwaited() const {
    int awaited = 0;
    for (size_t d = 0; d < habits.size(); ++d)
      awaited += choice.asks(d) ? 1 : 0;
    return awaited;
  }

  // Gain if verification costs nothing.
  TreeGain GainOf(size_t drafter) const {
    int64_t others = 0;
    for (size_t d = 0; d < habits.size(); ++d) {
      if (d == drafter || !choice.asks(d)) continue;
      others = std::max(others, habits[d].accepted);
    }
    const int64_t own = habits[drafter].accepted;
    return {.alone = static_cast<double>(own),
            .beside = static_cast<double>(std::max<int64_t>(0, own - others))};
  }

  const TokenTree late = TokenTree::RootOnly(0);
};

// A value of which four observations were made.
inline DrafterValue ValueOf(double alone, double beside, double seconds) {
  DrafterValue value(16);
  value.alone.Restart(alone);
  value.beside.Restart(beside);
  value.seconds.Restart(seconds);
  return value;
}

inline DrafterReturn AskedReturn(TreeGain gain, absl::Duration waited) {
  return {.attention = DraftCall::Attention::kAwaited,
          .waited = waited,
          .compute = waited,
          .gain = gain};
}

// As many rounds as lie between two changes.
inline void LearnUntilChange(DrafterChoice& choice,
                             const std::vector<DrafterReturn>& returns) {
  for (int i = 0; i < 4; ++i) choice.Learn(returns, kPrice);
}

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_CONTROL_ROUNDS_OF_DRAFTERS_H_
