#ifndef ESPALIER_COMMON_RPC_ACCESS_GATE_H_
#define ESPALIER_COMMON_RPC_ACCESS_GATE_H_

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/reload.h"
#include "common/rpc/role_file.h"
#include "common/rpc/token_file.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/server_context.h"

namespace espalier {

// Decides who may call the methods of a listener, by the token or certificate
// that a caller shows. Thread-safe.
class AccessGate {
 public:
  // Admits everybody.
  AccessGate() = default;

  struct Rules {
    std::string roles_file = {};  // server.roles_file; or empty
    // The file of a secret for the role kService; or empty.
    std::string token_file = {};
    // If neither is given: the name that certificates must have, where
    // certificates are wanted. Empty: any.
    std::string certificate_name = {};
  };
  // The rules of a drafter's or verifier's listener: `token_file`, or a
  // certificate with the name "coordinator".
  static Rules ForPeers(const v1::ServerConfig& config,
                        const std::string& token_file);
  // INVALID_ARGUMENT, NOT_FOUND: name the file.
  static absl::StatusOr<std::shared_ptr<AccessGate>> Open(const Rules& rules);

  // Returns true if a credential of its own is needed, beside a certificate.
  bool asks() const { return roles_ != nullptr || AsksToken(); }

  // Returns who calls, if one of `roles` may; the first one of them if
  // everybody may. UNAUTHENTICATED: the caller shows no credential that is
  // known; PERMISSION_DENIED: it has another role.
  absl::StatusOr<Principal> Admit(const grpc::ServerContextBase& context,
                                  std::initializer_list<Role> roles) const;
  // Admits by what a header of HTTP says: "Bearer TOKEN", or "Basic ...", whose
  // password is the token.
  absl::StatusOr<Principal> AdmitHeader(
      absl::string_view authorization, std::initializer_list<Role> roles) const;
  // Returns true if the credential of a caller that was admitted is still
  // known.
  bool Holds(const Principal& caller) const;

  // The fields of the configuration that name the files, for errors.
  struct Fields {
    std::string roles_file = "server.roles_file";
    std::string token_file = "token_file";
  };
  // Has `reload` read the files of `gate` again.
  static void Follow(const std::shared_ptr<AccessGate>& gate,
                     const Fields& fields, Reload& reload);

 private:
  bool AsksToken() const { return token_ != nullptr && !token_->empty(); }
  absl::StatusOr<Principal> ByToken(absl::string_view shown) const;
  absl::StatusOr<Principal> Identify(
      const grpc::ServerContextBase& context) const;

  std::unique_ptr<RoleFile> roles_;   // null: none
  std::shared_ptr<TokenFile> token_;  // null: none
  std::string certificate_name_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_ACCESS_GATE_H_
