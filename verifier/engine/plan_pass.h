#ifndef ESPALIER_VERIFIER_ENGINE_PLAN_PASS_H_
#define ESPALIER_VERIFIER_ENGINE_PLAN_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier::verifier {

// Rows that a waiting request needs, in one pass or in several.
struct PassWork {
  int64_t prompt_rows = 0;  // tokens to cache before the tree's root
  int64_t tree_rows = 1;    // root included
  // Says what a row of the prompt costs, in others' rows. Counts where others
  // wait.
  int64_t prompt_row_cost = 1;
};

// A request's share of the next pass: rows of its prompt, its tree, or the last
// rows of its prompt followed by its tree.
struct PassShare {
  int64_t request = 0;  // index into `waiting`
  int64_t prompt_rows = 0;
  bool with_tree = false;

  friend bool operator==(const PassShare&, const PassShare&) = default;
};

struct PassLimits {
  int64_t batch_rows = 0;     // of the pass; one tree alone may exceed it
  int64_t prompt_rows = 0;    // of a pass for which no tree alone waits
  int64_t sequence_rows = 0;  // of one sequence; no tree exceeds it
  int64_t chain_rows = 0;     // of one sequence without nodes after the root
};

// Divides the rows of the next pass among the waiting requests, oldest first.
// Trees come before prompts, since a tree ends a round; but while prompts wait,
// a quarter of the rows is reserved for them. The oldest request always gets
// rows. So if a request goes to the back of the queue after each of its passes,
// none waits for more passes than there are requests ahead of it. REQUIRES:
// limits above 0; prompt_rows >= batch_rows, chain_rows >= sequence_rows.
std::vector<PassShare> PlanPass(absl::Span<const PassWork> waiting,
                                const PassLimits& limits);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_PLAN_PASS_H_
