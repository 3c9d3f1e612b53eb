#ifndef ESPALIER_COMMON_RPC_CONNECTION_LISTENER_H_
#define ESPALIER_COMMON_RPC_CONNECTION_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/listen_address.h"
#include "prometheus/counter.h"

namespace espalier {

// Accepts connections and hands them to gRPC. gRPC 1.51's own listener stops
// accepting for good after one "too many open files", and limits nothing; this
// one continues when descriptors are free again, and reserves some of them.
// Connections that it cannot take yet wait in the system's queue.
class ConnectionListener {
 public:
  // Takes the descriptor of a connection. Runs on the listener's thread.
  using OnConnection = std::function<void(int descriptor)>;

  // Most connections that a client can make the server hold.
  static constexpr int kMaxConnections = 4096;

  // Starts to listen; connections wait until Start. Errors name the address.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Open(
      std::vector<ListenAddress> addresses, prometheus::Counter& delayed);
  // Stops, and removes the Unix sockets.
  ~ConnectionListener();

  // The addresses; a port 0 is replaced by the one that was chosen.
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

  // `on_tick` runs on the listener's thread about once a second.
  void Start(
      OnConnection on_connection, std::function<void()> on_tick = [] {});

 private:
  explicit ConnectionListener(prometheus::Counter& delayed);
  void Run(const OnConnection& on_connection,
           const std::function<void()>& on_tick);
  // Returns whether to try again at once.
  bool AcceptFrom(int listener, const OnConnection& on_connection);
  bool HasRoom() const;
  void Delay(absl::string_view trouble);

  prometheus::Counter& delayed_;
  std::vector<ListenAddress> addresses_;
  std::vector<int> sockets_;
  const int stop_;                // an eventfd, readable when it is to stop
  const int end_of_descriptors_;  // connections have smaller descriptors
  absl::Time next_log_ = absl::InfinitePast();  // used by the thread only
  std::thread thread_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONNECTION_LISTENER_H_
