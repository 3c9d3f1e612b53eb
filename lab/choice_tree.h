#ifndef ESPALIER_LAB_CHOICE_TREE_H_
#define ESPALIER_LAB_CHOICE_TREE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// Runs code with random choices once for every outcome, by replay: each run
// repeats the choices of the previous run up to the deepest one with an untried
// outcome, and takes that outcome.
class ChoiceTree {
 public:
  // Calls `run` for every outcome; choices of weight 0 are not taken.
  static void ForEachOutcome(const std::function<void(ChoiceTree&)>& run) {
    ChoiceTree choices;
    do {
      choices.next_ = 0;
      choices.weight_ = 1;
      run(choices);
    } while (choices.Advance());
  }

  // Returns an index, with probability weights[index]. The weights sum to 1.
  int64_t Choose(absl::Span<const double> weights) {
    if (next_ == taken_.size()) {
      taken_.emplace_back(weights.begin(), weights.end());
    }
    const Choice& choice = taken_[next_++];
    weight_ *= choice.weights[choice.index];
    return choice.index;
  }

  bool Flip(double probability) {
    const double weights[] = {1 - probability, probability};
    return Choose(weights) == 1;
  }

  // Probability of the choices made in this run so far.
  double weight() const { return weight_; }

 private:
  struct Choice {
    template <typename Iterator>
    Choice(Iterator begin, Iterator end) : weights(begin, end) {
      SkipImpossible();
    }
    bool Next() {
      ++index;
      SkipImpossible();
      return index < static_cast<int64_t>(weights.size());
    }
    void SkipImpossible() {
      while (index < static_cast<int64_t>(weights.size()) &&
             weights[index] == 0) {
        ++index;
      }
    }
    std::vector<double> weights;
    int64_t index = 0;
  };

  bool Advance() {
    taken_.erase(taken_.begin() + next_, taken_.end());
    while (!taken_.empty() && !taken_.back().Next()) taken_.pop_back();
    return !taken_.empty();
  }

  std::vector<Choice> taken_;
  size_t next_ = 0;
  double weight_ = 1;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_LAB_CHOICE_TREE_H_
