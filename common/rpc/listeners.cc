#include "common/rpc/listeners.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"

namespace espalier {

absl::StatusOr<std::vector<ListenAddress>> ListenersOf(
    const v1::ServerConfig& config) {
  if (config.listen().empty()) {
    return absl::InvalidArgumentError("server.listen is empty");
  }
  const auto permissions =
      SocketPermissions::Parse(config.socket_mode(), config.socket_group());
  if (!permissions.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server.", permissions.status().message()));
  }
  std::vector<ListenAddress> addresses;
  std::set<std::string> seen;
  for (const std::string& text : config.listen()) {
    ASSIGN_OR_RETURN(ListenAddress address,
                     WithPrefix("server.listen", ListenAddress::Parse(text)));
    const bool chosen_by_us = !address.unix_path.empty() || address.port != 0;
    if (chosen_by_us && !seen.insert(address.ToString()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("server.listen: ", text, " is there twice"));
    }
    address.permissions = *permissions;
    addresses.push_back(std::move(address));
  }
  return addresses;
}

absl::StatusOr<std::optional<ListenAddress>> MetricsListenerOf(
    const v1::ServerConfig& config) {
  const std::string& text = config.metrics_listen();
  if (text.empty()) return std::nullopt;
  auto address = ListenAddress::Parse(text);
  if (address.ok() && address->unix_path.empty()) return *std::move(address);
  return absl::InvalidArgumentError(absl::StrCat(
      "server.metrics_listen: ",
      address.ok() ? absl::StrCat("metrics need HOST:PORT, not ", text)
                   : std::string(address.status().message())));
}

absl::StatusOr<std::vector<std::string>> OpenListeners(
    const v1::ServerConfig& config, bool asks) {
  ASSIGN_OR_RETURN(const std::vector<ListenAddress> addresses,
                   ListenersOf(config));
  ASSIGN_OR_RETURN(const std::optional<ListenAddress> metrics,
                   MetricsListenerOf(config));
  std::vector<std::string> open;
  const bool has_tls = !config.tls().certificate_file().empty();
  for (const ListenAddress& address : addresses) {
    if (address.IsLocal() || has_tls || asks) continue;
    open.push_back(absl::StrCat("server.listen: everybody who reaches ",
                                address.ToString(), " can use the service"));
  }
  if (metrics && !metrics->IsLocal() && config.roles_file().empty()) {
    open.push_back(absl::StrCat("server.metrics_listen: everybody who reaches ",
                                metrics->ToString(), " can read the metrics"));
  }
  if (open.empty() || config.insecure()) return open;
  return absl::InvalidArgumentError(
      absl::StrCat(open[0],
                   "; set server.tls or server.roles_file, or "
                   "server.insecure=true to allow it"));
}

}  // namespace espalier
