#ifndef ESPALIER_COMMON_RPC_SERVER_TLS_H_
#define ESPALIER_COMMON_RPC_SERVER_TLS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/memory_file.h"
#include "common/tls/certificate_files.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/security/server_credentials.h"

namespace espalier {

// Opens the files of a listener; null if `config` names none. INVALID_ARGUMENT,
// NOT_FOUND: name the file, or the field that is missing.
absl::StatusOr<std::shared_ptr<CertificateFiles>> OpenServerCertificates(
    const v1::TlsConfig& config);

// TLS of one gRPC server. gRPC 1.51 reads certificates again only from files,
// one after another, and takes what does not fit together. So it gets files in
// memory, with what CertificateFiles has found to fit.
class ServerTls {
 public:
  explicit ServerTls(std::shared_ptr<CertificateFiles> files);

  std::shared_ptr<grpc::ServerCredentials> NewCredentials() const;

  // Passes on files that have changed; new connections get them within 2 s.
  // Call about once a second, from one thread.
  void Refresh();
  // When the certificate expires.
  absl::Time expires() const { return current_->expires; }

 private:
  const std::shared_ptr<CertificateFiles> files_;
  std::shared_ptr<const Certificates> current_;
  MemoryFile certificate_;
  MemoryFile key_;
  MemoryFile ca_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_TLS_H_
