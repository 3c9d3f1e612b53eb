#ifndef ESPALIER_COORDINATOR_DRAFT_CALL_H_
#define ESPALIER_COORDINATOR_DRAFT_CALL_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/spec/token_tree.h"

namespace espalier::coordinator {

// What a drafter is to do in a round.
struct DraftCall {
  enum class Attention {
    kNone,     // is not asked
    kShadow,   // is asked and judged; its tree is not used
    kAsked,    // is asked; the round goes on without it
    kAwaited,  // is asked; the round stands still for it
  };
  Attention attention = Attention::kAwaited;
  // How long the round may stand still for this drafter alone.
  absl::Duration patience = absl::InfiniteDuration();
};

// What a tree brings, in tokens: those that are accepted, less what the
// sessions emit in the time that the pass takes longer for the nodes that pay.
struct TreeGain {
  double alone = 0;   // as the only tree of the round
  double beside = 0;  // beside the round's other trees

  friend bool operator==(const TreeGain&, const TreeGain&) = default;
};

// What one drafter did in a round.
struct DrafterReturn {
  DraftCall::Attention attention = DraftCall::Attention::kNone;
  // Tokens in a row that it foretold: in this round where its tree was used;
  // else where the text has just settled an earlier one.
  std::optional<int64_t> accepted;
  // From the call to its answer, or for as long as the round stood still for
  // it; zero if the tree was there before the round. Unset: none of these.
  std::optional<absl::Duration> waited;
  bool in_vain = false;    // `waited` ended without an answer
  absl::Duration compute;  // inside the drafter, if it has answered
  // A tree for this round that was not waited for; valid until the next call.
  const TokenTree* late = nullptr;
  TreeGain gain;       // of its tree, or the late one; zero: there is none
  uint64_t site = 0;   // drafters of one site share cores; 0: its own
  bool active = true;  // might have been chosen
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFT_CALL_H_
