#ifndef ESPALIER_COORDINATOR_API_AUDIT_LOG_H_
#define ESPALIER_COORDINATOR_API_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/token_bucket.h"

namespace espalier::coordinator {

// A call of the Admin service.
struct AuditEntry {
  std::string method;
  std::string caller = {};  // name of the credential; empty: none is needed
  std::string peer = {};    // as gRPC names it
  // JSON of the settings before the call, and of those wanted; empty: none.
  std::string before = {};
  std::string wanted = {};
  absl::Status decision = {};  // not OK: the call is refused
};

// Appends one line of JSON for each call to a file, or to the log. The file is
// opened for each line, so it may be moved away at any time. Thread-safe.
class AuditLog {
 public:
  // `path` empty: the log. INVALID_ARGUMENT: the file cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(std::string path);

  // UNAVAILABLE: the line could not be written, so the call must not be done.
  // Strangers can make calls that are refused: 100 and then one a second have
  // a line, and the next line has the number of the others.
  absl::Status Write(const AuditEntry& entry);

 private:
  explicit AuditLog(std::string path) : path_(std::move(path)) {}
  absl::Status Append(const std::string& line) const;

  const std::string path_;
  Mutex mutex_;
  TokenBucket refusals_ ABSL_GUARDED_BY(mutex_){100, 1};
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_AUDIT_LOG_H_
