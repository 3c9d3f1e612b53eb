#ifndef ESPALIER_COORDINATOR_API_ANSWER_STREAM_H_
#define ESPALIER_COORDINATOR_API_ANSWER_STREAM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/rounds/coordinator.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// Name of the metadata and of the HTTP header by which a gateway names a
// tenant.
inline constexpr char kTenantMetadata[] = "x-tenant";

// Who calls, as far as a request depends on it.
struct Caller {
  std::string peer;  // as gRPC names it: "unix:...", "ipv4:..."
  absl::Time deadline = absl::InfiniteFuture();
  std::string traceparent = {};  // or empty
  // The name of the credential that it has shown; empty: none is needed.
  // Callers with different names share no cache.
  std::string tenant = {};
  // The tenant that it says it calls for (kTenantMetadata); or empty.
  std::string stated_tenant = {};
  bool is_operator = false;  // may be more urgent than clients
};

// Carries one answer to its client. It gets one Begin or Fail, from any thread,
// and may be destroyed when that has returned.
class AnswerStream {
 public:
  virtual ~AnswerStream() = default;
  // Starts the request.
  virtual void Begin(Coordinator& coordinator, GenerationRequest request) = 0;
  // Ends the call without a request.
  virtual void Fail(const absl::Status& status) = 0;
  // Returns true if the client has left, so that no work is needed for it.
  virtual bool IsCancelled() const = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_ANSWER_STREAM_H_
