#ifndef ESPALIER_COORDINATOR_HTTP_HTTP_SERVER_H_
#define ESPALIER_COORDINATOR_HTTP_HTTP_SERVER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/reload.h"
#include "espalier/v1/config.pb.h"

namespace espalier::http {
class Server;
}  // namespace espalier::http

namespace espalier::coordinator {

struct ApiContext;
class ApiKeys;
class HttpApi;

// The API over HTTP, on its address. Thread-safe.
class HttpServer {
 public:
  // Checks the settings, and that Start could listen now. Errors name the
  // field.
  static absl::Status Check(const std::string& listen,
                            const v1::HttpConfig& config);
  // Listens on `listen`, HOST:PORT. Errors as Check's. `context.readiness` is
  // asked only until Drain.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& listen, const v1::HttpConfig& config,
      ApiContext context);
  // Closes all connections, and cancels what they wait for.
  ~HttpServer();

  // The bound address; a port 0 is replaced by the one that was chosen.
  const std::string& address() const { return address_; }

  // Reads the keys again, for Reload, which may call it for as long as this
  // object lives.
  absl::StatusOr<Reload::Install> ReadAgain();

  bool has_tls() const { return has_tls_; }
  // A line if everybody who reaches the address may use the server; or none.
  const std::vector<std::string>& open_listeners() const {
    return open_listeners_;
  }

  // From now on, the server says that it is not ready.
  void StopBeingReady() { draining_ = true; }
  // Returns when the answers in work are sent, or at the deadline.
  void Drain(absl::Time deadline);

 private:
  HttpServer() = default;

  std::string address_;
  bool has_tls_ = false;
  std::vector<std::string> open_listeners_;
  std::atomic<bool> draining_ = false;
  std::shared_ptr<ApiKeys> keys_;  // null: none are needed
  std::unique_ptr<HttpApi> api_;
  std::unique_ptr<http::Server> server_;  // last: it uses the rest
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_HTTP_SERVER_H_
