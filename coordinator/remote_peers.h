#ifndef ESPALIER_COORDINATOR_REMOTE_PEERS_H_
#define ESPALIER_COORDINATOR_REMOTE_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/channel_tls.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "coordinator/coordinator_server.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// The verifier and the drafters of a coordinator's configuration: services,
// which connect by themselves, at any time, and drafters in this process.
class RemotePeers {
 public:
  struct Options {
    ModelIdentity model;
    prometheus::Registry& metrics;
    // The drafters that have a type in place of an address, in the order of
    // the configuration. Their endpoints must outlive the peers.
    std::vector<DrafterHandle> in_process;
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
    std::string address = {};
    std::unique_ptr<RemoteDraftEndpoint> endpoint = {};
    DrafterHandle in_process = {};  // if there is no remote endpoint

    DrafterHandle AsHandle() const;
    void Describe(v1::PeerInfo& out) const;
  };
  // A service.
  absl::StatusOr<Drafter> Connect(const v1::CoordinatorDrafter& drafter,
                                  absl::string_view field,
                                  const Options& options) const;

  RemotePeers() = default;
  void Describe(v1::GetServerInfoResponse& response) const;

  std::string verifier_address_;
  std::shared_ptr<CertificateFiles> certificates_;  // null: no TLS
  std::unique_ptr<RemoteVerifyEndpoint> verifier_;
  std::vector<Drafter> drafters_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_REMOTE_PEERS_H_
