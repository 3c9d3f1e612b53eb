#ifndef ESPALIER_COMMON_RPC_SERVER_TLS_H_
#define ESPALIER_COMMON_RPC_SERVER_TLS_H_

#include <memory>
#include <utility>

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
  // RESOURCE_EXHAUSTED etc.: see MemoryFile.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Make(
      std::shared_ptr<CertificateFiles> files);

  std::shared_ptr<grpc::ServerCredentials> NewCredentials() const;

  // Passes on files that have changed; new connections get them within 2 s.
  // Call about once a second, from one thread.
  void Refresh();
  // When the certificate expires.
  absl::Time expires() const { return current_->expires; }

 private:
  struct InMemory {
    MemoryFile certificate;
    MemoryFile key;
    MemoryFile ca;
  };
  ServerTls(std::shared_ptr<CertificateFiles> files,
            std::shared_ptr<const Certificates> current, InMemory in_memory)
      : files_(std::move(files)),
        current_(std::move(current)),
        in_memory_(std::move(in_memory)) {}

  const std::shared_ptr<CertificateFiles> files_;
  std::shared_ptr<const Certificates> current_;
  InMemory in_memory_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_TLS_H_
