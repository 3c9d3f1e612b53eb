#ifndef ESPALIER_COORDINATOR_API_PRIORITY_LIMITS_H_
#define ESPALIER_COORDINATOR_API_PRIORITY_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {

// The least, which is the most urgent, priorities that clients may ask for: an
// operator's choice, because a client with a lower one overtakes all others.
struct PriorityLimits {
  int64_t network = 0;      // of clients that connect over TCP
  int64_t unix_socket = 0;  // of those that connect to a Unix socket

  // `peer`: as gRPC names the client, "unix:..." or "ipv4:...".
  // PERMISSION_DENIED names the field and the limit.
  absl::Status Check(int64_t priority, absl::string_view peer) const {
    const bool is_local = absl::StartsWith(peer, "unix:");
    const int64_t least = is_local ? unix_socket : network;
    if (priority >= least) return absl::OkStatus();
    return WithReason(
        absl::PermissionDeniedError(
            absl::StrCat("priority: ", priority, " is below ", least,
                         ", the least that the server allows (core.",
                         is_local ? "min_priority_unix" : "min_priority", ")")),
        "PRIORITY_NOT_ALLOWED");
  }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_PRIORITY_LIMITS_H_
