#ifndef ESPALIER_COMMON_RPC_HTTP_CONNECTIONS_H_
#define ESPALIER_COMMON_RPC_HTTP_CONNECTIONS_H_

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/http_request.h"

namespace espalier {

// The open connections of an HTTP server, each with one request and its
// response, without blocking: a slow client holds up nobody. A request has a
// time limit from the connection to its last byte, and so has a response; if
// there are too many connections, the oldest one goes. For one thread.
class HttpConnections {
 public:
  static constexpr size_t kMost = 256;
  static constexpr absl::Duration kRequestTime = absl::Seconds(2);
  static constexpr absl::Duration kResponseTime = absl::Seconds(10);

  // Returns the whole response to a request, or to what is none.
  using Respond =
      std::function<std::string(const absl::StatusOr<HttpRequest>& request)>;

  explicit HttpConnections(Respond respond) : respond_(std::move(respond)) {}
  // Closes all.
  ~HttpConnections();

  // Takes a non-blocking socket.
  void Add(int descriptor, absl::Time now);

  // Appends what to poll for, and returns when to call Serve at the latest.
  absl::Time AppendTo(std::vector<pollfd>& polled) const;
  // Goes on with those that are ready: `polled` are the entries of AppendTo.
  // Closes those whose time is over.
  void Serve(const pollfd* polled, absl::Time now);

  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    int descriptor;
    absl::Time deadline;
    std::string request = {};   // what has arrived of it
    std::string response = {};  // empty: the request is not complete
    size_t num_sent = 0;        // bytes of the response

    bool is_writing() const { return num_sent < response.size(); }
  };

  // Each returns false when the connection has ended.
  bool Read(Connection& connection, absl::Time now);
  bool Write(Connection& connection, absl::Time now);

  const Respond respond_;
  std::list<Connection> connections_;  // oldest first
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HTTP_CONNECTIONS_H_
