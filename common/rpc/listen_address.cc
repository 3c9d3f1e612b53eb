#include "common/rpc/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

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
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

absl::Status Unusable(const ListenAddress& address, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

absl::Status InUse(const ListenAddress& address) {
  return absl::AlreadyExistsError(absl::StrCat(
      "cannot listen on ", address.ToString(), ": address already in use"));
}

absl::Status Errno(const ListenAddress& address, int error) {
  if (error == EADDRINUSE) return InUse(address);
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot listen on ", address.ToString()));
}

absl::Status PrepareUnix(const ListenAddress& address) {
  const std::string& path = address.unix_path;
  sockaddr_un name = {.sun_family = AF_UNIX};
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
  // EAGAIN: somebody listens whose queue is full.
  if (answered || errno == EAGAIN) return InUse(address);
  if (errno != ECONNREFUSED) return Errno(address, errno);
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : Errno(address, errno);
}

absl::Status PrepareTcp(const ListenAddress& address) {
  const addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return Unusable(address, gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found,
                                                           &freeaddrinfo);
  // A name may have addresses of a family that this machine lacks: one that
  // can be bound is enough, one in use is too much.
  absl::Status last = Unusable(address, "the name has no address");
  bool bound = false;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket probe(a->ai_family, a->ai_socktype);
    const int on = 1;
    if (probe.fd() < 0 ||
        setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(probe.fd(), a->ai_addr, a->ai_addrlen) < 0 ||
        listen(probe.fd(), 1) < 0) {
      last = Errno(address, errno);
      if (absl::IsAlreadyExists(last)) return last;
    } else {
      bound = true;
    }
  }
  return bound ? absl::OkStatus() : last;
}

}  // namespace

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

absl::Status PrepareToListen(const ListenAddress& address) {
  return address.unix_path.empty() ? PrepareTcp(address) : PrepareUnix(address);
}

}  // namespace espalier
