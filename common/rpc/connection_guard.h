#ifndef ESPALIER_COMMON_RPC_CONNECTION_GUARD_H_
#define ESPALIER_COMMON_RPC_CONNECTION_GUARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/freed_memory.h"
#include "common/base/mutex.h"
#include "common/base/token_bucket.h"
#include "common/rpc/connection_watch.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"

namespace espalier {

// Watches the connections of a server and closes those that abuse it: each by
// ConnectionWatch's limits, and, while the unfinished messages of all together
// are above a budget, the one that has most of them. Gives memory that was
// freed back to the system. Thread-safe.
class ConnectionGuard : public std::enable_shared_from_this<ConnectionGuard> {
 public:
  struct Limits {
    ConnectionWatch::Limits connection;
    // Limits the messages that are not complete, of all connections together.
    int64_t max_unfinished_bytes = int64_t{128} << 20;
  };

  static std::shared_ptr<ConnectionGuard> New(
      const Limits& limits, std::shared_ptr<prometheus::Registry> registry);

  // Begins to watch a connection, before gRPC reads from it. With TLS, it sees
  // what TLS carries, and closes a connection that begins with something else.
  // False: its descriptor is too large.
  bool Watch(int descriptor, bool has_tls = false);

  // Closes connections with a message that takes too long, forgets those that
  // have ended, and gives memory back. Call about once a second.
  void Sweep(absl::Time now);

  // Watches no connection any more.
  void Stop();

 private:
  class Watched;

  ConnectionGuard(const Limits& limits,
                  std::shared_ptr<prometheus::Registry> registry);
  void Report(absl::string_view reason);
  // Closes the connection with the most unfinished bytes, if all together have
  // too many.
  void KeepBudget();
  void GiveMemoryBack(absl::Time now);

  const Limits limits_;
  const std::shared_ptr<prometheus::Registry> registry_;  // has closed_
  prometheus::Family<prometheus::Counter>& closed_;
  std::atomic<int64_t> unfinished_bytes_ = 0;  // of connections not doomed
  absl::Time next_give_back_ = absl::InfinitePast();  // used by Sweep only
  FreedMemory freed_;                                 // used by Sweep only

  Mutex mutex_;
  std::map<int, std::shared_ptr<Watched>> watched_ ABSL_GUARDED_BY(mutex_);
  TokenBucket log_ ABSL_GUARDED_BY(mutex_){5, 0.1};
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONNECTION_GUARD_H_
