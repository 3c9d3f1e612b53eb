#include "common/rpc/access_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "grpc/grpc_security_constants.h"

namespace espalier {
namespace {

constexpr char kHeader[] = "authorization";
// The name of callers that showed the secret of token_file.
constexpr char kToken[] = "token";

bool CameOverTls(const grpc::ServerContextBase& context) {
  const auto about = context.auth_context();
  if (about == nullptr) return false;
  const std::vector<grpc::string_ref> kinds =
      about->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return !kinds.empty() && (kinds[0] == GRPC_TLS_TRANSPORT_SECURITY_TYPE ||
                            kinds[0] == GRPC_SSL_TRANSPORT_SECURITY_TYPE);
}

// Their credential, which ends with its version.
std::string TokenCredential(int version) {
  return absl::StrCat(kToken, ":", version);
}

// The names of the caller's certificate, which TLS has verified.
std::vector<std::string> CertificateNames(
    const grpc::ServerContextBase& context) {
  std::vector<std::string> names;
  const auto about = context.auth_context();
  if (!CameOverTls(context)) return names;
  for (const grpc::string_ref& name :
       about->FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::StatusOr<Principal> WithRole(absl::StatusOr<Principal> caller,
                                   std::initializer_list<Role> roles) {
  if (!caller.ok() ||
      std::find(roles.begin(), roles.end(), caller->role) != roles.end()) {
    return caller;
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the role ", RoleName(caller->role), " may not do that; ",
                   absl::StrJoin(roles, " or ",
                                 [](std::string* out, Role role) {
                                   absl::StrAppend(out, RoleName(role));
                                 }),
                   " may"));
}

}  // namespace

AccessGate::Rules AccessGate::ForPeers(const v1::ServerConfig& config,
                                       const std::string& token_file) {
  return {.roles_file = config.roles_file(),
          .token_file = token_file,
          .certificate_name =
              config.tls().client_ca_file().empty() ? "" : "coordinator"};
}

absl::StatusOr<std::shared_ptr<AccessGate>> AccessGate::Open(
    const Rules& rules) {
  auto gate = std::make_shared<AccessGate>();
  if (!rules.roles_file.empty()) {
    ASSIGN_OR_RETURN(
        gate->roles_,
        WithPrefix("roles_file", RoleFile::Read(rules.roles_file)));
  }
  ASSIGN_OR_RETURN(gate->token_, TokenFile::Open(rules.token_file));
  gate->certificate_name_ = rules.certificate_name;
  return gate;
}

void AccessGate::Follow(const std::shared_ptr<AccessGate>& gate,
                        const Fields& fields, Reload& reload) {
  // The gate keeps its files alive.
  const auto add = [&](const std::string& field, auto* file) {
    reload.Add(field, [gate, file] { return file->ReadAgain(); });
  };
  if (gate->roles_ != nullptr) add(fields.roles_file, gate->roles_.get());
  if (gate->AsksToken()) add(fields.token_file, gate->token_.get());
}

absl::StatusOr<Principal> AccessGate::ByToken(absl::string_view shown) const {
  if (AsksToken()) {
    const TokenFile::Version known = token_->version();
    if (known.token.Matches(shown)) {
      return Principal{.role = Role::kService,
                       .name = kToken,
                       .credential = TokenCredential(known.number)};
    }
  }
  if (roles_ != nullptr) {
    if (auto caller = roles_->FindToken(shown)) return *std::move(caller);
  }
  return absl::UnauthenticatedError("another token was shown");
}

absl::StatusOr<Principal> AccessGate::Identify(
    const grpc::ServerContextBase& context) const {
  const std::vector<std::string> names = CertificateNames(context);
  if (roles_ != nullptr && !names.empty()) {
    if (auto caller = roles_->FindCertificate(names)) return *std::move(caller);
  }
  absl::Status refusal = absl::UnauthenticatedError(
      names.empty() ? "no token was shown"
                    : "no token was shown, and the certificate has no role");
  const auto [begin, end] = context.client_metadata().equal_range(kHeader);
  for (auto entry = begin; entry != end; ++entry) {
    absl::string_view shown(entry->second.data(), entry->second.size());
    if (!absl::ConsumePrefix(&shown, "Bearer ")) continue;
    absl::StatusOr<Principal> caller = ByToken(shown);
    if (caller.ok()) return caller;
    refusal = caller.status();
  }
  return refusal;
}

absl::StatusOr<Principal> AccessGate::Admit(
    const grpc::ServerContextBase& context,
    std::initializer_list<Role> roles) const {
  if (asks()) return WithRole(Identify(context), roles);
  if (!certificate_name_.empty() && CameOverTls(context) &&
      !Has(CertificateNames(context), certificate_name_)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate has not the name \"", certificate_name_,
                     "\", which this listener wants"));
  }
  return Principal{.role = *roles.begin()};
}

absl::StatusOr<Principal> AccessGate::AdmitHeader(
    absl::string_view authorization, std::initializer_list<Role> roles) const {
  if (!asks()) return Principal{.role = *roles.begin()};
  absl::string_view shown = authorization;
  std::string pair;
  if (absl::ConsumePrefix(&shown, "Basic ") &&
      absl::Base64Unescape(shown, &pair)) {
    shown = pair;
    shown.remove_prefix(std::min(shown.size(), shown.find(':') + 1));
  } else if (!absl::ConsumePrefix(&shown, "Bearer ")) {
    return absl::UnauthenticatedError("no token was shown");
  }
  return WithRole(ByToken(shown), roles);
}

bool AccessGate::Holds(const Principal& caller) const {
  if (caller.credential.empty()) return true;
  if (AsksToken() &&
      caller.credential == TokenCredential(token_->version().number)) {
    return true;
  }
  return roles_ != nullptr && roles_->Has(caller);
}

}  // namespace espalier
