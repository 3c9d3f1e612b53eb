#include "common/rpc/http_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace espalier {
namespace {

// After the response, until the client closes its side: closing first would
// reset the connection if bytes have arrived that nobody has read.
constexpr absl::Duration kClosingTime = absl::Seconds(1);

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

HttpConnections::~HttpConnections() {
  for (const Connection& connection : connections_) {
    close(connection.descriptor);
  }
}

void HttpConnections::Add(int descriptor, absl::Time now) {
  if (connections_.size() >= kMost) {
    close(connections_.front().descriptor);
    connections_.pop_front();
  }
  connections_.push_back(
      {.descriptor = descriptor, .deadline = now + kRequestTime});
}

absl::Time HttpConnections::AppendTo(std::vector<pollfd>& polled) const {
  absl::Time first = absl::InfiniteFuture();
  for (const Connection& connection : connections_) {
    pollfd entry = {
        .fd = connection.descriptor, .events = POLLIN, .revents = 0};
    if (connection.is_writing()) entry.events = POLLOUT;
    polled.push_back(entry);
    first = std::min(first, connection.deadline);
  }
  return first;
}

void HttpConnections::Serve(const pollfd* polled, absl::Time now) {
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    const auto connection = entry++;
    const bool is_ready = (polled++)->revents != 0;
    bool goes_on = now < connection->deadline;
    if (goes_on && is_ready) {
      goes_on = connection->is_writing() ? Write(*connection, now)
                                         : Read(*connection, now);
    }
    if (goes_on) continue;
    close(connection->descriptor);
    connections_.erase(connection);
  }
}

bool HttpConnections::Read(Connection& connection, absl::Time now) {
  std::array<char, kMaxHttpRequest> buffer;
  const ssize_t size =
      recv(connection.descriptor, buffer.data(), buffer.size(), 0);
  if (size <= 0) return size < 0 && WouldBlock();
  if (!connection.response.empty()) return true;  // more than one request
  connection.request.append(buffer.data(), static_cast<size_t>(size));
  auto request = ParseHttpRequest(connection.request);
  if (request.ok() && !request->has_value()) return true;
  connection.deadline = now + kResponseTime;
  if (request.ok()) {
    connection.response = respond_(**std::move(request));
  } else {
    connection.response = respond_(request.status());
  }
  connection.request.clear();
  return Write(connection, now);
}

bool HttpConnections::Write(Connection& connection, absl::Time now) {
  const ssize_t size = send(
      connection.descriptor, connection.response.data() + connection.num_sent,
      connection.response.size() - connection.num_sent, MSG_NOSIGNAL);
  if (size < 0) return WouldBlock();
  connection.num_sent += static_cast<size_t>(size);
  if (connection.is_writing()) return true;
  connection.deadline = now + kClosingTime;
  return shutdown(connection.descriptor, SHUT_WR) == 0;
}

}  // namespace espalier
