// Links of a pool to fake peers, which are lost and found as a test says.
#ifndef ESPALIER_TESTS_COORDINATOR_POOL_FAKE_LINK_H_
#define ESPALIER_TESTS_COORDINATOR_POOL_FAKE_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/rpc/peer_status.h"
#include "tests/testing/fake_endpoints.h"
#include "tests/testing/toy_target.h"

namespace espalier::coordinator {

// A replica; outlives the links to it.
template <typename Endpoint, typename PeerInfo>
struct FakeReplica {
  PeerStatus status = {.state = PeerState::kReady};
  std::optional<PeerInfo> info = {};
  std::unique_ptr<Endpoint> endpoint = {};
  int num_links = 0;
  std::function<void()> before_call = [] {};
};

template <typename Endpoint, typename PeerInfo>
class FakeLink {
 public:
  using Replica = FakeReplica<Endpoint, PeerInfo>;
  explicit FakeLink(Replica* replica) : replica_(*replica) {
    ++replica_.num_links;
  }
  ~FakeLink() { --replica_.num_links; }

  PeerStatus status() const { return replica_.status; }
  std::optional<PeerInfo> info() const { return replica_.info; }
  bool AwaitState(PeerState state, absl::Time) const {
    return replica_.status.state == state;
  }
  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) {
    replica_.before_call();
    if (!ready()) {
      std::move(done)(absl::UnavailableError("lost"));
      return;
    }
    replica_.endpoint->Verify(std::move(request), deadline, std::move(done));
  }
  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) {
    replica_.before_call();
    if (!ready()) {
      std::move(done)(absl::UnavailableError("lost"));
      return;
    }
    replica_.endpoint->Propose(std::move(request), deadline,
                               std::move(on_partial), std::move(done));
  }
  void EndSequence(SequenceId sequence) {
    if (ready()) replica_.endpoint->EndSequence(sequence);
  }

 private:
  bool ready() const { return replica_.status.state == PeerState::kReady; }

  Replica& replica_;
};

using FakeVerifierLink = FakeLink<FakeVerifyEndpoint, VerifierInfo>;
using FakeDrafterLink = FakeLink<FakeDraftEndpoint, DrafterInfo>;

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_POOL_FAKE_LINK_H_
