#include "coordinator/cli/flags/connection_flags.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"

namespace espalier::cli {

void ConnectionFlags::AddTlsTo(FlagSet& flags) {
  flags.Add(
      {"--ca", "FILE", "TLS: authorities of the server's certificate, PEM"},
      &ca_);
  flags.Add({"--cert", "FILE", "with --ca: the certificate to show"},
            &certificate_);
  flags.Add({"--key", "FILE", "with --cert: its key"}, &key_);
  flags.Add({"--server-name", "NAME",
             "with --ca: the name that the server's certificate\n"
             "has; default: the host of the address"},
            &server_name_);
}

void ConnectionFlags::AddTo(FlagSet& flags) {
  AddTlsTo(flags);
  flags.Add({"--token-file", "FILE", "a file with the token to show"},
            &token_file_);
}

absl::StatusOr<Credentials> ConnectionFlags::Read() const {
  Credentials credentials;
  if (certificate_.empty() != key_.empty()) {
    return absl::InvalidArgumentError("--cert and --key need each other");
  }
  if (ca_.empty() && !(certificate_.empty() && server_name_.empty())) {
    return absl::InvalidArgumentError("--cert and --server-name need --ca");
  }
  if (!ca_.empty()) {
    ASSIGN_OR_RETURN(
        credentials.tls.files,
        CertificateFiles::Open(
            {.certificate = certificate_, .key = key_, .ca = ca_}));
    credentials.tls.server_name = server_name_;
  }
  ASSIGN_OR_RETURN(
      credentials.token,
      WithPrefix("--token-file", AccessToken::ReadFile(token_file_)));
  return credentials;
}

}  // namespace espalier::cli
