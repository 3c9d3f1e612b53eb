#ifndef ESPALIER_COMMON_RPC_ACCESS_TOKEN_H_
#define ESPALIER_COMMON_RPC_ACCESS_TOKEN_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/client_context.h"

namespace espalier {

// A secret that a coordinator must present to a drafter or verifier, as
// "authorization: Bearer ..." in a call's metadata. An empty token is neither
// presented nor required.
class AccessToken {
 public:
  static constexpr size_t kMinBytes = 16;

  AccessToken() = default;
  explicit AccessToken(std::string secret) : secret_(std::move(secret)) {}

  // Reads the file's text without surrounding white space; an empty path gives
  // the empty token. NOT_FOUND: the file cannot be read; INVALID_ARGUMENT: not
  // a valid token. Errors name the path.
  static absl::StatusOr<AccessToken> ReadFile(const std::string& path);

  void ShowOn(grpc::ClientContext& context) const;
  // Returns what a call shows. REQUIRES: not empty.
  std::pair<std::string, std::string> AsMetadata() const;

  bool empty() const { return secret_.empty(); }
  friend bool operator==(const AccessToken&, const AccessToken&) = default;
  // Returns true if `shown` is the secret, in a time that does not depend on
  // it.
  bool Matches(absl::string_view shown) const;

 private:
  std::string secret_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_ACCESS_TOKEN_H_
