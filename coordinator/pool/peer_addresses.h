#ifndef ESPALIER_COORDINATOR_POOL_PEER_ADDRESSES_H_
#define ESPALIER_COORDINATOR_POOL_PEER_ADDRESSES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace espalier::coordinator {

// The address of a peer in the configuration: "unix:PATH" or "HOST:PORT",
// several of them separated by commas, or "dns:NAME:PORT", all addresses that
// the name has.
class PeerAddresses {
 public:
  // INVALID_ARGUMENT: an address is empty or twice there, or the name has no
  // port.
  static absl::StatusOr<PeerAddresses> Parse(const std::string& text);

  // Returns true if the addresses may change.
  bool is_name() const { return !name_.empty(); }
  // Returns the addresses of the configuration. REQUIRES: !is_name().
  const std::vector<std::string>& fixed() const { return fixed_; }
  // Asks the system's resolver, which may take seconds. UNAVAILABLE: the name
  // has no address now. REQUIRES: is_name().
  absl::StatusOr<std::vector<std::string>> Resolve() const;

 private:
  std::vector<std::string> fixed_;
  std::string name_;
  std::string port_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_POOL_PEER_ADDRESSES_H_
