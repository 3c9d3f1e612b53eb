#ifndef ESPALIER_COMMON_RPC_REMOTE_DRAFT_ENDPOINT_H_
#define ESPALIER_COMMON_RPC_REMOTE_DRAFT_ENDPOINT_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/rpc/peer_status.h"
#include "common/speculation/endpoints.h"

namespace espalier {

// A remote drafter. It connects and reconnects by itself. While it is not
// connected, every Propose fails with UNAVAILABLE at once; when a stream
// breaks, every unanswered Propose does. `on_partial` and `done` run on a gRPC
// thread, `done` possibly on the caller's. Thread-safe. The destructor waits
// for callbacks, so it must not run on a gRPC thread.
class RemoteDraftEndpoint final : public DraftEndpoint {
 public:
  // As PeerLink::Accept.
  using Accept = std::function<absl::Status(const DrafterInfo&)>;
  explicit RemoteDraftEndpoint(
      PeerOptions options,
      Accept accept = [](const DrafterInfo&) { return absl::OkStatus(); });
  ~RemoteDraftEndpoint() override;

  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override;
  void EndSequence(SequenceId sequence) override;

  PeerStatus status() const;
  // From the drafter's last hello; nullopt until it was ready once.
  std::optional<DrafterInfo> info() const;
  // Blocks until it is in `state`; false if the deadline comes first.
  bool AwaitState(PeerState state, absl::Time deadline) const;

 private:
  class Link;
  const std::unique_ptr<Link> link_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_REMOTE_DRAFT_ENDPOINT_H_
