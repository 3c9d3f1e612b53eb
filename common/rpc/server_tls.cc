#include "common/rpc/server_tls.h"

#include <utility>

#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace espalier {
namespace {

constexpr unsigned kReadEverySeconds = 1;

}  // namespace

absl::StatusOr<std::shared_ptr<CertificateFiles>> OpenServerCertificates(
    const v1::TlsConfig& config) {
  if (config.certificate_file().empty() && config.key_file().empty() &&
      config.client_ca_file().empty()) {
    return nullptr;
  }
  if (config.certificate_file().empty() || config.key_file().empty()) {
    return absl::InvalidArgumentError(
        "certificate_file and key_file are both needed");
  }
  return CertificateFiles::Open({.certificate = config.certificate_file(),
                                 .key = config.key_file(),
                                 .ca = config.client_ca_file()});
}

ServerTls::ServerTls(std::shared_ptr<CertificateFiles> files)
    : files_(std::move(files)),
      current_(files_->Current()),
      certificate_(current_->certificate),
      key_(current_->key),
      ca_(current_->ca) {}

std::shared_ptr<grpc::ServerCredentials> ServerTls::NewCredentials() const {
  const bool wants_certificates = !current_->ca.empty();
  auto provider =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          key_.path(), certificate_.path(),
          wants_certificates ? ca_.path() : "", kReadEverySeconds);
  grpc::experimental::TlsServerCredentialsOptions options(std::move(provider));
  options.watch_identity_key_cert_pairs();
  if (wants_certificates) options.watch_root_certs();
  options.set_cert_request_type(
      wants_certificates
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

void ServerTls::Refresh() {
  std::shared_ptr<const Certificates> now = files_->Current();
  if (now == current_) return;
  current_ = std::move(now);
  ca_.Replace(current_->ca);
  key_.Replace(current_->key);
  certificate_.Replace(current_->certificate);
}

}  // namespace espalier
