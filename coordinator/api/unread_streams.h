#ifndef ESPALIER_COORDINATOR_API_UNREAD_STREAMS_H_
#define ESPALIER_COORDINATOR_API_UNREAD_STREAMS_H_

#include <cstddef>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"

namespace espalier::coordinator {

// Streams whose request is finished and whose client has not read the rest.
// They do not count as running requests, so their number and bytes are bounded
// here: the oldest are cancelled. Thread-safe.
class UnreadStreams {
 public:
  struct Limits {
    size_t max_streams = 128;
    size_t max_bytes = size_t{64} << 20;  // of answers and their requests
  };
  using Cancel = absl::AnyInvocable<void() &&>;

  explicit UnreadStreams(Limits limits) : limits_(limits) {}

  // `cancel` ends a stream; it runs at most once, before Remove returns, and
  // must not call this object. REQUIRES: `stream` is not there.
  void Add(const void* stream, size_t bytes, Cancel cancel);
  // Call it when a stream ends. A stream that was never added is ignored.
  void Remove(const void* stream);

 private:
  struct Entry {
    const void* stream;
    size_t bytes;
    Cancel cancel;
  };

  const Limits limits_;
  Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_UNREAD_STREAMS_H_
