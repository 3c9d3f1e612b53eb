#ifndef ESPALIER_COORDINATOR_API_WAITING_REQUESTS_H_
#define ESPALIER_COORDINATOR_API_WAITING_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace espalier::coordinator {

// The requests whose prompts wait to be tokenized or are being tokenized, so
// that Abort finds those that the coordinator does not know yet. Thread-safe.
class WaitingRequests {
 public:
  struct Request {
    std::string tenant;
    bool aborted = false;
  };
  // By request_id; several may have the same one until the coordinator refuses
  // all but the first.
  using Entries = std::multimap<std::string, Request>;
  using Entry = Entries::iterator;

  // Adds a request of `tenant` if `admit`, which gets how many of the tenant's
  // wait, returns OK; otherwise returns its error. `admit` must not call this
  // object. Of two requests at a time, the second counts the first.
  absl::StatusOr<Entry> Add(
      const std::string& request_id, const std::string& tenant,
      absl::FunctionRef<absl::Status(int64_t num_waiting)> admit);

  // Marks the requests with this id. Whether there are any.
  bool Abort(const std::string& request_id);

  bool IsAborted(Entry entry) const;

  // Removes `entry`, after it has called `hand_over` unless the request was
  // aborted: an Abort finds the request here or where it was handed to. Whether
  // it was called. `hand_over` must not call this object.
  bool Leave(Entry entry, absl::FunctionRef<void()> hand_over);

 private:
  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> sizes_ ABSL_GUARDED_BY(mutex_);  // by tenant
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_WAITING_REQUESTS_H_
