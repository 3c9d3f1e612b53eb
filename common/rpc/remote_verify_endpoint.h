#ifndef ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_
#define ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/rpc/peer_status.h"
#include "common/spec/endpoints.h"

namespace espalier {

// A verifier on the other side of a wire. Connects by itself, again and again;
// while it is not ready every Verify answers UNAVAILABLE at once, and a broken
// stream answers so for all that is unanswered. `done` runs on a gRPC thread or
// on the caller's. Thread-safe. The destructor waits for callbacks: not for a
// gRPC thread.
class RemoteVerifyEndpoint final : public VerifyEndpoint {
 public:
  explicit RemoteVerifyEndpoint(PeerOptions options);
  ~RemoteVerifyEndpoint() override;

  void Verify(VerifyRequest request, absl::Time deadline,
              Done<Verdict> done) override;
  void EndSequence(SequenceId sequence) override;

  PeerStatus status() const;
  // What it last said of itself, pass_costs as of the last verdict; nullopt
  // before it was ever ready.
  std::optional<VerifierInfo> info() const;
  // Blocks until it is in `state`; false if the deadline comes first.
  bool AwaitState(PeerState state, absl::Time deadline) const;

 private:
  class Link;
  const std::unique_ptr<Link> link_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_
