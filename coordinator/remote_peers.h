#ifndef ESPALIER_COORDINATOR_REMOTE_PEERS_H_
#define ESPALIER_COORDINATOR_REMOTE_PEERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/notification.h"
#include "common/base/reload.h"
#include "common/rpc/channel_tls.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/rpc/token_file.h"
#include "coordinator/coordinator_server.h"
#include "coordinator/pool/peer_addresses.h"
#include "coordinator/pool/pooled_endpoints.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// The verifier and the drafters of a coordinator's configuration: services,
// which connect by themselves, at any time, and drafters in this process. A
// service may have several replicas, whose addresses a name may have.
class RemotePeers {
 public:
  struct Options {
    ModelIdentity model;
    prometheus::Registry& metrics;
    // The drafters that have a type in place of an address, in the order of
    // the configuration. Their endpoints must outlive the peers.
    std::vector<DrafterHandle> in_process;
    Reload& reload;  // reads the files of tokens again
  };
  // INVALID_ARGUMENT names the field.
  static absl::StatusOr<std::unique_ptr<RemotePeers>> Create(
      const v1::CoordinatorConfig& config, const Options& options);
  // Waits for a look-up of a name that is in progress.
  ~RemotePeers();

  // Valid while this object lives.
  Peers AsPeers();

  // See LinkPool::AwaitState.
  bool AwaitVerifier(PeerState state, absl::Time deadline) const {
    return verifier_->pool().AwaitState(state, deadline);
  }

 private:
  using Verifier = PooledVerifier<RemoteVerifyEndpoint>;
  using RemoteDrafter = PooledDrafter<RemoteDraftEndpoint>;
  struct Drafter {
    std::string name;
    std::string address = {};
    std::unique_ptr<RemoteDrafter> endpoint = {};
    DrafterHandle in_process = {};  // if there is no remote endpoint

    DrafterHandle AsHandle() const;
    void Describe(v1::PeerInfo& out) const;
  };
  // A name to be resolved again and again, and who gets its addresses.
  struct Name {
    PeerAddresses addresses;
    std::function<void(const std::vector<std::string>&)> set;
    absl::Status last = {};
  };
  // Holds what all links have in common.
  struct Connection {
    ModelIdentity model;
    prometheus::Registry& metrics;
    Reload& reload;
    std::optional<absl::Duration> keepalive = {};  // as configured
    // Null: no TLS.
    std::shared_ptr<CertificateFiles> certificates = {};

    // Returns the options of a peer, whose certificate has to have its name.
    PeerOptions Options(const std::string& name, const std::string& address,
                        std::shared_ptr<const TokenFile> token) const;
    // Errors name the field.
    absl::StatusOr<std::shared_ptr<const TokenFile>> Token(
        const std::string& field, const std::string& path) const;
  };

  RemotePeers() = default;
  absl::Status ConnectVerifier(const v1::CoordinatorConfig& config,
                               const Connection& connection);
  // A service.
  absl::StatusOr<Drafter> ConnectDrafter(const v1::CoordinatorDrafter& drafter,
                                         const std::string& field,
                                         const Connection& connection);
  // Gives a pool its addresses, now or when they are known.
  template <typename Pool>
  absl::Status Follow(const std::string& field, const std::string& address,
                      Pool& pool);
  void ResolveAll();
  void Describe(v1::GetServerInfoResponse& response) const;

  std::string verifier_address_;
  std::unique_ptr<Verifier> verifier_;
  std::vector<Drafter> drafters_;
  std::vector<Name> names_;  // of the resolver's thread, once it runs
  Notification stopping_;
  std::jthread resolver_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_REMOTE_PEERS_H_
