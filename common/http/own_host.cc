#include "common/http/own_host.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace espalier::http {

// No name consists of digits or begins with a bracket.
bool IsOwnHost(absl::string_view host, absl::Span<const std::string> allowed) {
  if (absl::StartsWith(host, "[")) return true;
  host = host.substr(0, host.find(':'));
  return host == "localhost" ||
         (!host.empty() &&
          host.find_first_not_of("0123456789.") == host.npos) ||
         std::find(allowed.begin(), allowed.end(), host) != allowed.end();
}

}  // namespace espalier::http
