#ifndef ESPALIER_COMMON_HTTP_SERVER_H_
#define ESPALIER_COMMON_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/answer.h"
#include "common/tls/certificate_files.h"

namespace espalier::http {

// Limits what clients may cost. A connection that breaks a limit of time is
// closed.
struct Limits {
  // When all are taken, a new one takes the place of the one that has been idle
  // the longest, or gets 503 if none is idle.
  size_t max_connections = 4096;
  uint32_t header_bytes = 32 << 10;     // more: 431
  size_t body_bytes = size_t{8} << 20;  // of one request; more: 413
  // All bodies that are being received have so many; more: 503.
  size_t all_body_bytes = size_t{64} << 20;
  absl::Duration header_time = absl::Seconds(10);  // from its first byte
  absl::Duration body_time = absl::Seconds(60);
  absl::Duration idle_time = absl::Seconds(75);  // between two requests
  // For a piece of an answer, and a second more for each 16 KiB of it.
  absl::Duration write_time = absl::Seconds(30);
};

// An HTTP/1.1 server on a few threads, however many connections there are.
// Thread-safe.
class Server {
 public:
  struct Options {
    // Non-blocking listening TCP sockets. The server closes them.
    std::vector<int> sockets;
    Handler handler;
    Limits limits = {};
    std::shared_ptr<CertificateFiles> certificates = nullptr;  // null: no TLS
    int num_threads = 2;
  };
  // Starts to serve. INTERNAL: a socket cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Options options);
  // Closes all connections at once, which destroys their answers.
  virtual ~Server() = default;

  // Accepts no more connections, closes idle ones, and returns when the answers
  // in work are sent, or at the deadline.
  virtual void Drain(absl::Time deadline) = 0;
  virtual size_t num_connections() const = 0;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_SERVER_H_
