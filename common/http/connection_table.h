#ifndef ESPALIER_COMMON_HTTP_CONNECTION_TABLE_H_
#define ESPALIER_COMMON_HTTP_CONNECTION_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace espalier::http {

// A connection, as the table sees it. Thread-safe.
class Closable {
 public:
  virtual ~Closable() = default;
  // Closes it soon, if it has no request by then.
  virtual void CloseIfIdle() = 0;
};

// The open connections of a server, and the bytes of the bodies that they
// receive. Thread-safe.
class ConnectionTable {
 public:
  struct Limits {
    size_t max_connections = 0;
    size_t all_body_bytes = 0;
  };
  explicit ConnectionTable(Limits limits) : limits_(limits) {}

  // Enters an idle connection. If there is no place, the one that has been idle
  // the longest is closed; false: there is none.
  bool Add(const std::shared_ptr<Closable>& connection, absl::Time now);
  void Remove(Closable* connection);
  // The connection has a request.
  void SetBusy(Closable* connection);
  void SetIdle(Closable* connection, absl::Time now);

  // Closes idle connections, and has the others close after their answer.
  void Drain();
  bool draining() const { return draining_; }
  // Waits until no connection has a request, or until the deadline.
  void AwaitIdle(absl::Time deadline) const;
  size_t size() const;

  // False: there is no room for a body of this size now.
  bool ReserveBody(size_t bytes);
  void ReleaseBody(size_t bytes) { body_bytes_ -= bytes; }

 private:
  struct Entry {
    std::weak_ptr<Closable> connection;
    absl::Time idle_since;  // InfiniteFuture: it has a request
  };
  using Connections = std::vector<std::shared_ptr<Closable>>;

  std::shared_ptr<Closable> LongestIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Connections All() const;

  const Limits limits_;
  std::atomic<size_t> body_bytes_ = 0;
  std::atomic<bool> draining_ = false;
  mutable Mutex mutex_;
  absl::flat_hash_map<Closable*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t num_busy_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_CONNECTION_TABLE_H_
