// Optimal acceptance of one of k independent draws, in closed form.
//
// A distribution f over tokens is that of *some* rule which picks a winner
// among k draws from p iff f(U) <= 1 - (1 - p(U))^k for all sets U of tokens: f
// / p must be majorised by h(u) = k u^(k-1) on [0, 1], the density of the
// largest of k uniform scores. So (Strassen) there is a distribution of scores
// for each token, uniform on a set of intervals, such that together they fill
// [0, 1], h has the mean f(x) / p(x) over the intervals of x, and this rule has
// the winner distribution f: every draw gets a score by its token's
// distribution, the largest score wins.
//
// The winner is accepted with probability min(1, target / f). The best f is the
// target clipped so that it is feasible: raised to a floor on the tokens T that
// the drafter overrates, lowered to a ceiling on the others.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

// x^k. REQUIRES: k >= 0.
double Power(double x, int64_t k) {
  double power = 1;
  for (; k > 0; --k) power *= x;
  return power;
}

class GrStep final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    if (input.draws.size() == 1) return single_->Plan(input, plan);
    plan.Clear(input);
    k_ = static_cast<int64_t>(input.draws.size());
    RankByRatio(input);
    ClipRatios();
    JoinEqualRatios(input);
    AssignScores();
    MeasureWinners();
    Accept(input, plan);
  }

 private:
  // Tokens of one ratio f / p, which share their distribution of scores.
  struct Atom {
    double mass = 0;    // p of all
    double ratio = 0;   // f / p: as wanted, then as the scores give it
    double length = 0;  // of its score intervals; the mass, but for rounding
    int64_t draws = 0;  // that have one of its tokens
    double below = 0;   // its scores' CDF, in a sweep over the scores
    double wins = 0;    // probability that a given one of the draws wins
  };
  // Scores that belong to an atom, or (while scores are assigned) to none.
  struct Interval {
    double begin, end;
    int32_t atom = -1;
  };

  // Sorts tokens by target / p, ties as they stand. Sums up p and target.
  void RankByRatio(const StepInput& input) {
    const auto size = static_cast<int32_t>(input.distribution.size());
    ratio_.resize(size);
    rank_.resize(size);
    std::iota(rank_.begin(), rank_.end(), 0);
    const auto ratio_of = [&input](int32_t x) {
      return input.target[x] / input.distribution[x];
    };
    std::sort(rank_.begin(), rank_.end(), [&](int32_t x, int32_t y) {
      const double rx = ratio_of(x), ry = ratio_of(y);
      return rx != ry ? rx < ry : x < y;
    });
    drafted_.assign(1, 0);
    wanted_.assign(1, 0);
    for (int32_t i = 0; i < size; ++i) {
      const int32_t x = rank_[i];
      ratio_[i] = ratio_of(x);
      drafted_.push_back(drafted_[i] + input.distribution[x]);
      wanted_.push_back(wanted_[i] + input.target[x]);
    }
  }

  // T is the set of lowest ratios with the smallest target(T) - p(T)^k; 1 plus
  // this is the acceptance. T gets at least the mass p(T)^k, the probability
  // that all draws are in T; the other tokens get at most the rest.
  void ClipRatios() {
    const auto size = static_cast<int32_t>(rank_.size());
    const auto lacking = [this](int32_t j) {
      return wanted_[j] - Power(drafted_[j], k_);
    };
    cut_ = 0;
    for (int32_t j = 1; j <= size; ++j) {
      if (lacking(j) < lacking(cut_)) cut_ = j;
    }
    const double mass_of_t = Power(drafted_[cut_], k_);
    double floor = 0;
    for (int32_t m = 1; m <= cut_; ++m) {
      floor = (mass_of_t - (wanted_[cut_] - wanted_[m])) / drafted_[m];
      if (m == cut_ || floor <= ratio_[m]) break;
    }
    double ceiling = 0;
    for (int32_t m = size - 1; m >= cut_; --m) {
      ceiling = (1 - mass_of_t - (wanted_[m] - wanted_[cut_])) /
                (drafted_[size] - drafted_[m]);
      if (m == cut_ || ceiling >= ratio_[m - 1]) break;
    }
    for (int32_t i = 0; i < size; ++i) {
      ratio_[i] =
          i < cut_ ? std::max(ratio_[i], floor) : std::min(ratio_[i], ceiling);
    }
  }

  void JoinEqualRatios(const StepInput& input) {
    constexpr double kSame = 1 + 1e-13;
    atoms_.clear();
    atom_of_.resize(rank_.size());
    for (int32_t i = 0; i < static_cast<int32_t>(rank_.size()); ++i) {
      const bool is_new =
          i == 0 || i == cut_ || ratio_[i] > ratio_[i - 1] * kSame;
      if (is_new) atoms_.push_back({.ratio = ratio_[i]});
      atoms_.back().mass += input.distribution[rank_[i]];
      atom_of_[rank_[i]] = static_cast<int32_t>(atoms_.size()) - 1;
    }
  }

  // From the highest ratio to the lowest, cuts an interval out of the scores
  // that are left (counted without the gaps) over which h has the mean `ratio`.
  // The last atom takes all remaining scores.
  void AssignScores() {
    left_.assign(1, {.begin = 0, .end = 1});
    scores_.clear();
    for (auto atom = static_cast<int32_t>(atoms_.size()) - 1; atom > 0;
         --atom) {
      const double begin = FindInterval(atoms_[atom]);
      CutOut(begin, begin + atoms_[atom].mass, atom);
    }
    for (Interval& interval : left_) {
      interval.atom = 0;
      scores_.push_back(interval);
    }
    std::sort(
        scores_.begin(), scores_.end(),
        [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  }

  // Returns the start of the atom's interval in the remaining scores: the zero
  // of a rising function, by Newton's method between bounds. Its precision
  // affects only optimality.
  double FindInterval(const Atom& atom) const {
    double length = 0;
    for (const Interval& interval : left_)
      length += interval.end - interval.begin;
    double low = 0, high = std::max(0.0, length - atom.mass);
    double at = high;
    for (int i = 0; i < 60 && high - low > 1e-15; ++i) {
      const Height begin = HeightAt(at), end = HeightAt(at + atom.mass);
      const double excess = end.sum - begin.sum - atom.ratio * atom.mass;
      (excess > 0 ? high : low) = at;
      const double slope = end.h - begin.h;
      at -= excess / slope;
      if (!(at > low && at < high)) at = (low + high) / 2;
    }
    return at;
  }

  struct Height {
    double sum;  // integral of h from 0
    double h;    // there
  };
  // Position in the remaining scores.
  Height HeightAt(double at) const {
    double sum = 0;
    for (const Interval& interval : left_) {
      const double length = interval.end - interval.begin;
      const double end = interval.begin + std::min(at, length);
      sum += Power(end, k_) - Power(interval.begin, k_);
      if (at <= length || &interval == &left_.back()) {
        return {sum, static_cast<double>(k_) * Power(end, k_ - 1)};
      }
      at -= length;
    }
    return {sum, 0};
  }

  // Moves the scores from `begin` to `end`, counted in the remaining scores.
  void CutOut(double begin, double end, int32_t atom) {
    remaining_.clear();
    for (const Interval& interval : left_) {
      const double length = interval.end - interval.begin;
      const double from = interval.begin + std::clamp(begin, 0.0, length);
      const double to = interval.begin + std::clamp(end, 0.0, length);
      if (interval.begin < from) remaining_.push_back({interval.begin, from});
      if (from < to) scores_.push_back({from, to, atom});
      if (to < interval.end) remaining_.push_back({to, interval.end});
      begin -= length;
      end -= length;
    }
    left_.swap(remaining_);
  }

  // f / p of the scores as assigned.
  void MeasureWinners() {
    for (Atom& atom : atoms_) atom.ratio = 0;
    for (const Interval& interval : scores_) {
      Atom& atom = atoms_[interval.atom];
      atom.length += interval.end - interval.begin;
      atom.ratio += Power(interval.end, k_) - Power(interval.begin, k_);
    }
    for (Atom& atom : atoms_) {
      if (atom.length > 0) atom.ratio /= atom.length;
    }
  }

  void Accept(const StepInput& input, StepPlan& plan) {
    for (int32_t x : input.draws) ++atoms_[atom_of_[x]].draws;
    for (const Interval& interval : scores_) {
      Atom& atom = atoms_[interval.atom];
      if (atom.draws > 0) AddWins(interval, input, atom);
    }
    for (size_t x = 0; x < input.distribution.size(); ++x) {
      plan.flow[x] = std::min(Winner(input, x), input.target[x]);
    }
    for (size_t i = 0; i < input.draws.size(); ++i) {
      const int32_t x = input.draws[i];
      const double winner = Winner(input, x);
      if (winner == 0) continue;
      plan.accept[i] = atoms_[atom_of_[x]].wins * (plan.flow[x] / winner);
    }
  }

  // f(x)
  double Winner(const StepInput& input, int32_t x) const {
    return input.distribution[x] * atoms_[atom_of_[x]].ratio;
  }

  // Adds the chance that a draw scores in the interval and all others less.
  // Over an interval the CDFs of other atoms do not change.
  void AddWins(const Interval& interval, const StepInput& input, Atom& atom) {
    double others = 1;
    for (int32_t x : input.draws) {
      const Atom& other = atoms_[atom_of_[x]];
      if (&other != &atom) others *= other.below;
    }
    const double below = atom.below;
    atom.below += (interval.end - interval.begin) / atom.length;
    atom.wins += others *
                 (Power(atom.below, atom.draws) - Power(below, atom.draws)) /
                 static_cast<double>(atom.draws);
  }

  const std::unique_ptr<SingleStep> single_ = NewSpsStep();
  int64_t k_ = 0;                    // draws
  int32_t cut_ = 0;                  // tokens in T
  std::vector<int32_t> rank_;        // [n] tokens by ratio
  std::vector<double> ratio_;        // [n] by rank
  std::vector<double> drafted_;      // [n + 1] sums of p by rank
  std::vector<double> wanted_;       // [n + 1] sums of the target by rank
  std::vector<Atom> atoms_;          // by ratio
  std::vector<int32_t> atom_of_;     // [n]
  std::vector<Interval> left_;       // not yet assigned, ascending
  std::vector<Interval> remaining_;  // scratch
  std::vector<Interval> scores_;     // assigned to atoms
};

}  // namespace

std::unique_ptr<SingleStep> NewGrStep() { return std::make_unique<GrStep>(); }

}  // namespace espalier::verifier
