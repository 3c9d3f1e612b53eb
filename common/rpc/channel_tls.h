#ifndef ESPALIER_COMMON_RPC_CHANNEL_TLS_H_
#define ESPALIER_COMMON_RPC_CHANNEL_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls/certificate_files.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace espalier {

// How a client makes sure of a server.
struct ChannelTls {
  std::shared_ptr<CertificateFiles> files = nullptr;  // null: no TLS
  // The name that the server's certificate must have. Empty: the host of the
  // address.
  std::string server_name = {};
};

// Opens the files of a client; null if `config` names none. INVALID_ARGUMENT,
// NOT_FOUND: name the file, or the field that is missing.
absl::StatusOr<std::shared_ptr<CertificateFiles>> OpenClientCertificates(
    const v1::PeerTlsConfig& config);

// Returns credentials for a new channel to "unix:PATH", which has no TLS, or
// "HOST:PORT", with the files as they are now, and sets what they need in
// `arguments`.
std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(
    const std::string& address, const ChannelTls& tls,
    grpc::ChannelArguments& arguments);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CHANNEL_TLS_H_
