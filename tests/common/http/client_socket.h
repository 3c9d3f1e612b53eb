// A client that writes and reads the bytes that a test says.
#ifndef ESPALIER_TESTS_COMMON_HTTP_CLIENT_SOCKET_H_
#define ESPALIER_TESTS_COMMON_HTTP_CLIENT_SOCKET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace espalier::testing {

// A listening, non-blocking socket on a free port of 127.0.0.1.
inline int ListenOnLoopback(uint16_t& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  bind(fd, reinterpret_cast<sockaddr*>(&name), size);
  listen(fd, SOMAXCONN);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
  port = ntohs(name.sin_port);
  return fd;
}

class ClientSocket {
 public:
  // `receive_bytes`: of the socket's buffer; 0: the system's choice.
  explicit ClientSocket(uint16_t port, int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                 sizeof(receive_bytes));
    }
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name));
  }
  ClientSocket(ClientSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  ~ClientSocket() { Close(); }

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  void Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // Returns what arrives up to `end`, or up to the end of the connection.
  std::string ReadUntil(absl::string_view end) {
    size_t found = std::string::npos;
    char piece[4096];
    size_t searched = 0;
    while ((found = arrived_.find(std::string(end), searched)) ==
           std::string::npos) {
      searched = arrived_.size() - std::min(arrived_.size(), end.size());
      const ssize_t bytes = recv(fd_, piece, sizeof(piece), 0);
      if (bytes <= 0) return std::exchange(arrived_, "");
      arrived_.append(piece, static_cast<size_t>(bytes));
    }
    const std::string text = arrived_.substr(0, found + end.size());
    arrived_.erase(0, text.size());
    return text;
  }
  std::string ReadAll() { return ReadUntil("\x01 never sent"); }

 private:
  int fd_;
  std::string arrived_;  // and not returned yet
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_COMMON_HTTP_CLIENT_SOCKET_H_
