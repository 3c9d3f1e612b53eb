// The two interfaces of the system. Local engines, gRPC clients, fakes and
// fault-injecting decorators all implement them, so the coordinator does not
// know whether a peer is local or remote.
#ifndef ESPALIER_COMMON_SPECULATION_ENDPOINTS_H_
#define ESPALIER_COMMON_SPECULATION_ENDPOINTS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/speculation/messages.h"

namespace espalier {

// Callback for a result. Runs exactly once, on any thread, possibly before the
// call returns, possibly long after the deadline. Must not block.
template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>) &&>;

// Callback for the best tree so far, which replaces earlier ones. Runs any
// number of times, on any thread, one call at a time, and always before `done`.
// Must not block. Null: the caller takes only the final tree.
using OnPartial = absl::AnyInvocable<void(Proposal)>;

// Thread-safe. Errors of both endpoints:
//   FAILED_PRECONDITION with a held length (stale_base.h): the update does not
//     fit the peer's copy; send it again from the held length.
//   INVALID_ARGUMENT: malformed request; do not retry.
//   RESOURCE_EXHAUSTED: no room for a new sequence, or no memory.
//   UNAVAILABLE: not connected, restarting or draining; retry later.
//   DATA_LOSS (drafters only): the answer is missing or malformed.
class DraftEndpoint {
 public:
  virtual ~DraftEndpoint() = default;
  // Applies the update and drafts a tree within the budget. The tree is useless
  // after `deadline`, so a drafter may stop early. A slow drafter reports
  // intermediate trees to `on_partial`.
  // REQUIRES: no other Propose of the sequence is unanswered, except one with a
  // lookahead.
  virtual void Propose(ProposeRequest request, absl::Time deadline,
                       OnPartial on_partial, Done<Proposal> done) = 0;
  // Forgets the sequence. Unknown sequences are ignored.
  virtual void EndSequence(SequenceId sequence) = 0;
};

class VerifyEndpoint {
 public:
  virtual ~VerifyEndpoint() = default;
  // Applies the update, runs the tree through the target in one pass, and
  // commits what the rule accepts, bonus token included. Idempotent: the same
  // (sequence, round) again returns the stored result. OUT_OF_RANGE: the
  // sequence is longer than max_context.
  virtual void Verify(VerifyRequest request, absl::Time deadline,
                      Done<VerifyResult> done) = 0;
  virtual void EndSequence(SequenceId sequence) = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_ENDPOINTS_H_
