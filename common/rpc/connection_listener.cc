#include "common/rpc/connection_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/descriptor_limit.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"

namespace espalier {
namespace {

// Descriptors kept free for files, links to peers and metrics.
constexpr int kReserved = 64;
constexpr int kPauseMs = 100;
constexpr absl::Duration kTick = absl::Seconds(1);

}  // namespace

ConnectionListener::ConnectionListener(prometheus::Counter& delayed)
    : delayed_(delayed),
      stop_(eventfd(0, EFD_CLOEXEC)),
      end_of_descriptors_(
          std::max(kReserved, std::min(DescriptorLimit() - kReserved,
                                       kMaxConnections + kReserved))) {}

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Open(
    std::vector<ListenAddress> addresses, prometheus::Counter& delayed) {
  std::unique_ptr<ConnectionListener> listener(new ConnectionListener(delayed));
  for (ListenAddress& address : addresses) {
    ASSIGN_OR_RETURN(const std::vector<int> sockets,
                     OpenListeningSockets(address));
    listener->sockets_.insert(listener->sockets_.end(), sockets.begin(),
                              sockets.end());
    listener->addresses_.push_back(std::move(address));
  }
  return listener;
}

ConnectionListener::~ConnectionListener() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (int socket : sockets_) close(socket);
  close(stop_);
  for (const ListenAddress& address : addresses_) {
    if (!address.unix_path.empty()) unlink(address.unix_path.c_str());
  }
}

void ConnectionListener::Start(OnConnection on_connection,
                               std::function<void()> on_tick) {
  thread_ = std::thread(
      [this, on_connection = std::move(on_connection),
       on_tick = std::move(on_tick)] { Run(on_connection, on_tick); });
}

void ConnectionListener::Run(const OnConnection& on_connection,
                             const std::function<void()>& on_tick) {
  absl::Time next_tick = absl::Now() + kTick;
  std::vector<pollfd> polled = {{.fd = stop_, .events = POLLIN, .revents = 0}};
  for (int socket : sockets_)
    polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  while (true) {
    const absl::Duration until_tick =
        std::max(next_tick - absl::Now(), absl::ZeroDuration());
    poll(polled.data(), polled.size(),
         static_cast<int>(absl::ToInt64Milliseconds(until_tick)) + 1);
    if (absl::Now() >= next_tick) {
      on_tick();
      next_tick = absl::Now() + kTick;
    }
    bool pause = false;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) {
        pause |= !AcceptFrom(polled[i].fd, on_connection);
      }
    }
    // Connections that wait stay in the system's queue.
    if (pause) poll(polled.data(), 1, kPauseMs);
    if (polled[0].revents != 0) return;
  }
}

bool ConnectionListener::AcceptFrom(int listener,
                                    const OnConnection& on_connection) {
  if (!HasRoom()) {
    Delay("too many are open");
    return false;
  }
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    const bool is_short = errno == EMFILE || errno == ENFILE ||
                          errno == ENOBUFS || errno == ENOMEM;
    if (is_short) Delay(std::strerror(errno));
    return !is_short;
  }
  on_connection(fd);
  return true;
}

// The system assigns the lowest free number, so as many descriptors are open.
bool ConnectionListener::HasRoom() const {
  const int lowest = fcntl(stop_, F_DUPFD_CLOEXEC, 0);
  if (lowest >= 0) close(lowest);
  return lowest >= 0 && lowest < end_of_descriptors_;
}

// Logged rarely, because callers can cause it as often as they like.
void ConnectionListener::Delay(absl::string_view trouble) {
  delayed_.Increment();
  const absl::Time now = absl::Now();
  if (now < next_log_) return;
  next_log_ = now + absl::Minutes(1);
  LogError(absl::StrCat("connections wait: ", trouble));
}

}  // namespace espalier
