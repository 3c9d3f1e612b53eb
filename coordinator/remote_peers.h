#ifndef ESPALIER_COORDINATOR_REMOTE_PEERS_H_
#define ESPALIER_COORDINATOR_REMOTE_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "coordinator/coordinator_server.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// The remote verifier and drafters of a coordinator's configuration. They
// connect by themselves, at any time.
class RemotePeers {
 public:
  struct Options {
    ModelIdentity model;
    prometheus::Registry& metrics;
  };
  // INVALID_ARGUMENT names the field.
  static absl::StatusOr<std::unique_ptr<RemotePeers>> Create(
      const v1::CoordinatorConfig& config, const Options& options);

  // Valid while this object lives.
  Peers AsPeers();

  // See RemoteVerifyEndpoint::AwaitState.
  bool AwaitVerifier(PeerState state, absl::Time deadline) const {
    return verifier_->AwaitState(state, deadline);
  }

 private:
  struct Drafter {
    std::string name;
    std::string address;
    std::unique_ptr<RemoteDraftEndpoint> endpoint;
  };

  RemotePeers() = default;
  void Describe(v1::GetServerInfoResponse& response) const;

  std::string verifier_address_;
  std::unique_ptr<RemoteVerifyEndpoint> verifier_;
  std::vector<Drafter> drafters_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_REMOTE_PEERS_H_
