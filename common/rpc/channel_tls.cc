#include "common/rpc/channel_tls.h"

#include <vector>

#include "absl/strings/match.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace espalier {

absl::StatusOr<std::shared_ptr<CertificateFiles>> OpenClientCertificates(
    const v1::PeerTlsConfig& config) {
  const bool has_own = !config.certificate_file().empty();
  if (has_own == config.key_file().empty()) {
    return absl::InvalidArgumentError(
        "certificate_file and key_file are both needed, or none");
  }
  if (config.ca_file().empty()) {
    if (!has_own) return nullptr;
    return absl::InvalidArgumentError("ca_file is needed");
  }
  return CertificateFiles::Open({.certificate = config.certificate_file(),
                                 .key = config.key_file(),
                                 .ca = config.ca_file()});
}

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(
    const std::string& address, const ChannelTls& tls,
    grpc::ChannelArguments& arguments) {
  if (tls.files == nullptr || absl::StartsWith(address, "unix:")) {
    return grpc::InsecureChannelCredentials();
  }
  const std::shared_ptr<const Certificates> files = tls.files->Current();
  std::vector<grpc::experimental::IdentityKeyCertPair> own;
  if (!files->key.empty()) {
    own.push_back(
        {.private_key = files->key, .certificate_chain = files->certificate});
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
          files->ca, own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  if (!tls.server_name.empty()) {
    arguments.SetSslTargetNameOverride(tls.server_name);
  }
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace espalier
