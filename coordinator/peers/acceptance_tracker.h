#ifndef ESPALIER_COORDINATOR_PEERS_ACCEPTANCE_TRACKER_H_
#define ESPALIER_COORDINATOR_PEERS_ACCEPTANCE_TRACKER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier::coordinator {

// Compares a drafter's trees with the text of its session, also trees that were
// not verified: the text shows what would have been accepted, though for a deep
// tree only some rounds later. Lives on the executor.
class AcceptanceTracker {
 public:
  // Adds a valid tree for the text after the first committed_length tokens.
  void Add(const TokenTree& tree, int64_t committed_length);

  // The accepted lengths of the trees that the grown text settles: those that
  // it has left or followed to their end.
  std::vector<int64_t> Settle(absl::Span<const TokenId> text);

 private:
  struct Case {
    TokenTree tree;
    int64_t committed_length;
    int64_t depth;
  };
  std::deque<Case> cases_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_ACCEPTANCE_TRACKER_H_
