#ifndef ESPALIER_VERIFIER_COSTS_TREE_ROUTING_H_
#define ESPALIER_VERIFIER_COSTS_TREE_ROUTING_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace espalier::verifier {

// The experts of a mixture that a pass over `rows` rows read, over all layers.
struct ExpertsRead {
  int64_t rows = 0;
  int64_t experts = 0;
};

// How alike the rows of trees are routed in a mixture of experts. A pass pays
// for the experts that its rows choose between them. Rows of a tree continue
// one text, so they choose fewer than as many rows with nothing in common, and
// a measuring pass must not cost more than the trees that it stands for.
// Single-threaded.
class TreeRouting {
 public:
  // `unlike`: what passes over rows with nothing in common read, by ascending
  // rows from 1 on. Empty: the model has no experts.
  explicit TreeRouting(std::vector<ExpertsRead> unlike = {})
      : unlike_(std::move(unlike)) {}

  // A pass over `rows` rows of trees read so many experts.
  void ObserveTree(int64_t rows, int64_t experts);

  // Returns how many rows with nothing in common read as many experts as a tree
  // of `rows` rows, 1 to `rows`. Before a tree was observed: `rows`.
  int64_t UnlikeRows(int64_t rows) const;

 private:
  // Returns how many unlike rows read so many experts, not rounded.
  double RowsThatRead(int64_t experts) const;

  const std::vector<ExpertsRead> unlike_;
  bool was_observed_ = false;
  double unlike_share_ = 1;  // of the rows after the first; a running mean
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_COSTS_TREE_ROUTING_H_
