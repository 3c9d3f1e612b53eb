// The two interfaces of the system. Local engines, gRPC clients, fakes and
// fault-injecting decorators all implement them, so the coordinator never knows
// on which side of a wire a peer is.
#ifndef ESPALIER_COMMON_SPEC_ENDPOINTS_H_
#define ESPALIER_COMMON_SPEC_ENDPOINTS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/spec/messages.h"

namespace espalier {

// Runs exactly once, on any thread, possibly before the call returns, possibly
// long after the deadline. Must not block.
template <typename T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>) &&>;

// The best tree so far, as a proposal that takes the place of the ones before
// it. Runs any number of times, on any thread, one after another and all before
// `done`. Must not block. Null: only the whole tree is of use.
using OnPartial = absl::AnyInvocable<void(Proposal)>;

// Thread-safe. Errors of both endpoints:
//   FAILED_PRECONDITION with a held length (stale_base.h): the update does not
//     fit the peer's copy; send it again from the held length.
//   INVALID_ARGUMENT: malformed request; do not retry.
//   RESOURCE_EXHAUSTED: no room for a new sequence.
//   UNAVAILABLE: not connected, restarting or draining; retry later.
class DraftEndpoint {
 public:
  virtual ~DraftEndpoint() = default;
  // Applies the update and drafts a tree under the budget. `deadline` is when
  // the tree becomes useless, so a drafter may stop early; one that needs long
  // tells `on_partial` what it has.
  // REQUIRES: no other Propose of the sequence is unanswered, but one with a
  // guess, whose answer nobody waits for.
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
  // (sequence, round) again returns the stored verdict.
  virtual void Verify(VerifyRequest request, absl::Time deadline,
                      Done<Verdict> done) = 0;
  virtual void EndSequence(SequenceId sequence) = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_ENDPOINTS_H_
