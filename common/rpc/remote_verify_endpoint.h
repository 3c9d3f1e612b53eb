#ifndef ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_
#define ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/rpc/peer_status.h"
#include "common/speculation/endpoints.h"

namespace espalier {

// A remote verifier. It connects and reconnects by itself. While it is not
// connected, every Verify fails with UNAVAILABLE at once; when a stream breaks,
// every unanswered Verify does. `done` runs on a gRPC thread or on the
// caller's. Thread-safe. The destructor waits for callbacks, so it must not run
// on a gRPC thread.
class RemoteVerifyEndpoint final : public VerifyEndpoint {
 public:
  explicit RemoteVerifyEndpoint(PeerOptions options);
  ~RemoteVerifyEndpoint() override;

  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) override;
  void EndSequence(SequenceId sequence) override;

  PeerStatus status() const;
  // From the verifier's last hello, with pass_costs and memory of its last
  // result; nullopt until it was ready once.
  std::optional<VerifierInfo> info() const;
  // Blocks until it is in `state`; false if the deadline comes first.
  bool AwaitState(PeerState state, absl::Time deadline) const;

 private:
  class Link;
  const std::unique_ptr<Link> link_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_REMOTE_VERIFY_ENDPOINT_H_
