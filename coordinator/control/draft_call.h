#ifndef ESPALIER_COORDINATOR_CONTROL_DRAFT_CALL_H_
#define ESPALIER_COORDINATOR_CONTROL_DRAFT_CALL_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/speculation/token_tree.h"

namespace espalier::coordinator {

// Says what one drafter has to do in a round.
struct DraftCall {
  enum class Attention {
    kNone,     // not asked
    kShadow,   // asked and measured; its tree is not used
    kAsked,    // asked; the round goes on without it
    kAwaited,  // asked; the round waits for it
  };
  Attention attention = Attention::kAwaited;
  // How long the round may wait for this drafter alone.
  absl::Duration patience = absl::InfiniteDuration();
  float least_reach = 0;  // see DraftBudget
};

// The gain of a tree, in tokens: accepted tokens, less the tokens that the
// sessions would emit in the extra time that the pass takes for the nodes that
// pay.
struct TreeGain {
  double alone = 0;   // as the only tree of the round
  double beside = 0;  // beside the round's other trees

  friend bool operator==(const TreeGain&, const TreeGain&) = default;
};

// Says what one drafter did in a round.
struct DrafterReturn {
  DraftCall::Attention attention = DraftCall::Attention::kNone;
  // Accepted length: of this round's tree if it was used, otherwise of an
  // earlier tree that the text has just settled.
  std::optional<int64_t> accepted;
  // Time from the call to its answer, or for as long as the round waited for
  // it; zero if the tree was there before the round. Unset: none of these.
  std::optional<absl::Duration> waited;
  bool in_vain = false;    // `waited` ended without an answer
  absl::Duration compute;  // inside the drafter, if it has answered
  absl::Duration level;    // of a level of its tree below the first; 0: unknown
  // A tree for this round that was not used in it; valid until the next call.
  const TokenTree* late = nullptr;
  TreeGain gain;  // of its tree or `late`; zero: no tree
  // Drafters of one CPU group share cores; 0: cores of its own.
  uint64_t cpu_group = 0;
  bool shares_verifier_cores = false;
  bool active = true;  // its role is kActive

  // Returns true if it took part in the round, with a tree or without.
  bool was_asked() const {
    return attention == DraftCall::Attention::kAsked ||
           attention == DraftCall::Attention::kAwaited;
  }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_DRAFT_CALL_H_
