#include "common/rpc/listen_address.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

// A socket that closes itself.
class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {}
  Socket(Socket&& other) : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::Status Unusable(const ListenAddress& address, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

// " by NAME (process ID)"; empty: unknown.
std::string UserOf(int connected_fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(connected_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.pid <= 0) {
    return "";
  }
  std::string name;
  std::ifstream stream(absl::StrCat("/proc/", peer.pid, "/comm"));
  std::getline(stream, name);
  return absl::StrCat(" by ", name, name.empty() ? "" : " ", "(process ",
                      peer.pid, ")");
}

absl::Status InUse(const ListenAddress& address, absl::string_view user = "") {
  return absl::AlreadyExistsError(
      absl::StrCat("cannot listen on ", address.ToString(),
                   ": address already in use", user));
}

absl::Status Errno(const ListenAddress& address, int error) {
  if (error == EADDRINUSE) return InUse(address);
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot listen on ", address.ToString()));
}

void SetPort(sockaddr& name, int port) {
  const in_port_t wire = htons(static_cast<uint16_t>(port));
  if (name.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(name).sin6_port = wire;
  } else {
    reinterpret_cast<sockaddr_in&>(name).sin_port = wire;
  }
}

int PortOf(const Socket& socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&name), &size);
  // The port has the same offset in sockaddr_in6.
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

absl::Status PrepareUnix(const ListenAddress& address) {
  const std::string& path = address.unix_path;
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return Unusable(address, absl::StrCat("the path has ", path.size(),
                                          " bytes, the system's limit is ",
                                          sizeof(name.sun_path) - 1));
  }
  const std::string parent =
      std::filesystem::absolute(path).parent_path().string();
  std::error_code ignored;
  if (!std::filesystem::is_directory(parent, ignored)) {
    return Unusable(address, absl::StrCat("there is no folder ", parent));
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Errno(address, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Unusable(address, "the file exists and is no socket");
  }
  std::memcpy(name.sun_path, path.c_str(), path.size());
  Socket probe(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  if (probe.fd() < 0) return Errno(address, errno);
  const bool answered =
      connect(probe.fd(), reinterpret_cast<const sockaddr*>(&name),
              sizeof(name)) == 0;
  // EAGAIN: a process listens, but its queue is full.
  if (answered) return InUse(address, UserOf(probe.fd()));
  if (errno == EAGAIN) return InUse(address);
  if (errno != ECONNREFUSED) return Errno(address, errno);
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : Errno(address, errno);
}

// Listening sockets on all IP addresses of the name, with one port.
absl::StatusOr<std::vector<Socket>> ListenTcp(ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return Unusable(address, gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found,
                                                           &freeaddrinfo);
  // A name may have addresses of a family that this machine lacks. One address
  // that can be bound is enough; one that is in use is an error.
  absl::Status last = Unusable(address, "the name has no address");
  std::vector<Socket> sockets;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK);
    const int on = 1;
    SetPort(*a->ai_addr, address.port);
    if (socket.fd() < 0 ||
        setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) <
            0 ||
        setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) <
            0 ||
        bind(socket.fd(), a->ai_addr, a->ai_addrlen) < 0 ||
        listen(socket.fd(), SOMAXCONN) < 0) {
      last = Errno(address, errno);
      if (absl::IsAlreadyExists(last)) return last;
      continue;
    }
    if (address.port == 0) address.port = PortOf(socket);
    sockets.push_back(std::move(socket));
  }
  if (sockets.empty()) return last;
  return sockets;
}

// The group first: the mode must not hold for another one.
bool Permit(const std::string& path, const SocketPermissions& permissions) {
  constexpr uid_t kSameUser = static_cast<uid_t>(-1);
  return (!permissions.group ||
          chown(path.c_str(), kSameUser, *permissions.group) == 0) &&
         chmod(path.c_str(), permissions.mode) == 0;
}

absl::StatusOr<gid_t> GroupOf(const std::string& name) {
  gid_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  group found = {};
  group* result = nullptr;
  char buffer[4096];
  if (getgrnam_r(name.c_str(), &found, buffer, sizeof(buffer), &result) == 0 &&
      result != nullptr) {
    return found.gr_gid;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("socket_group: there is no group \"", name, "\""));
}

absl::StatusOr<Socket> ListenUnix(const ListenAddress& address) {
  const std::string& path = address.unix_path;
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size());
  Socket socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  // No client can connect before the socket listens.
  if (socket.fd() < 0 ||
      bind(socket.fd(), reinterpret_cast<const sockaddr*>(&name),
           sizeof(name)) < 0 ||
      !Permit(path, address.permissions) ||
      listen(socket.fd(), SOMAXCONN) < 0) {
    return Errno(address, errno);
  }
  return socket;
}

}  // namespace

absl::StatusOr<SocketPermissions> SocketPermissions::Parse(
    const std::string& mode, const std::string& group) {
  SocketPermissions permissions;
  if (!mode.empty()) {
    const bool is_octal =
        mode.size() <= 4 && mode.find_first_not_of("01234567") == mode.npos;
    const mode_t bits =
        is_octal ? static_cast<mode_t>(std::stoul(mode, nullptr, 8)) : 0;
    if (!is_octal || bits > 0777 || (bits & 0600) != 0600) {
      return absl::InvalidArgumentError(
          absl::StrCat("socket_mode: \"", mode,
                       "\" is not 600 .. 777 in octal digits, "
                       "with the user's own permission"));
    }
    permissions.mode = bits;
  }
  if (group.empty()) return permissions;
  ASSIGN_OR_RETURN(permissions.group, GroupOf(group));
  return permissions;
}

absl::StatusOr<ListenAddress> ListenAddress::Parse(absl::string_view text) {
  const auto error = [text](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no address (unix:PATH or HOST:PORT): ", what));
  };
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (rest.empty()) return error("the path is empty");
    if (rest.find('\0') != rest.npos) return error("a zero byte in the path");
    address.unix_path = std::string(rest);
    return address;
  }
  const size_t colon = rest.rfind(':');
  if (colon == rest.npos) return error("the port is missing");
  absl::string_view host = rest.substr(0, colon);
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return error("the port is not 0 .. 65535");
  }
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return error("\"]\" is missing");
  } else if (absl::StrContains(host, ':')) {
    return error("an IPv6 address needs brackets");
  }
  if (host.empty()) return error("the host is missing; 0.0.0.0 is all");
  address.host = std::string(host);
  return address;
}

std::string ListenAddress::ToString() const {
  if (!unix_path.empty()) return absl::StrCat("unix:", unix_path);
  if (absl::StrContains(host, ':')) {
    return absl::StrCat("[", host, "]:", port);
  }
  return absl::StrCat(host, ":", port);
}

bool ListenAddress::IsLocal() const {
  if (!unix_path.empty() || host == "localhost") return true;
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  in_addr v4 = {};
  constexpr uint32_t kLoopbackNet = 127;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 &&
         ntohl(v4.s_addr) >> 24 == kLoopbackNet;
}

absl::Status PrepareToListen(const ListenAddress& address) {
  if (!address.unix_path.empty()) return PrepareUnix(address);
  ListenAddress probed = address;
  return ListenTcp(probed).status();
}

absl::StatusOr<std::vector<int>> OpenListeningSockets(ListenAddress& address) {
  std::vector<Socket> sockets;
  if (address.unix_path.empty()) {
    ASSIGN_OR_RETURN(sockets, ListenTcp(address));
  } else {
    RETURN_IF_ERROR(PrepareUnix(address));
    ASSIGN_OR_RETURN(Socket socket, ListenUnix(address));
    sockets.push_back(std::move(socket));
  }
  std::vector<int> descriptors;
  for (Socket& socket : sockets) descriptors.push_back(socket.Release());
  return descriptors;
}

}  // namespace espalier
