#include "common/rpc/server_tls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
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

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Make(
    std::shared_ptr<CertificateFiles> files) {
  auto current = files->Current();
  ASSIGN_OR_RETURN(MemoryFile certificate,
                   MemoryFile::Make(current->certificate));
  ASSIGN_OR_RETURN(MemoryFile key, MemoryFile::Make(current->key));
  ASSIGN_OR_RETURN(MemoryFile ca, MemoryFile::Make(current->ca));
  return std::unique_ptr<ServerTls>(
      new ServerTls(std::move(files), std::move(current),
                    {.certificate = std::move(certificate),
                     .key = std::move(key),
                     .ca = std::move(ca)}));
}

std::shared_ptr<grpc::ServerCredentials> ServerTls::NewCredentials() const {
  const bool wants_certificates = !current_->ca.empty();
  auto provider =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          in_memory_.key.path(), in_memory_.certificate.path(),
          wants_certificates ? in_memory_.ca.path() : "", kReadEverySeconds);
  grpc::experimental::TlsServerCredentialsOptions options(std::move(provider));
  options.watch_identity_key_cert_pairs();
  if (wants_certificates) options.watch_root_certs();
  options.set_cert_request_type(
      wants_certificates
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

// What fails is tried again at the next call.
void ServerTls::Refresh() {
  std::shared_ptr<const Certificates> now = files_->Current();
  if (now == current_) return;
  for (const absl::Status& status :
       {in_memory_.ca.Replace(now->ca), in_memory_.key.Replace(now->key),
        in_memory_.certificate.Replace(now->certificate)}) {
    if (status.ok()) continue;
    LogError(absl::StrCat("TLS: ", status.message()));
    return;
  }
  current_ = std::move(now);
}

}  // namespace espalier
