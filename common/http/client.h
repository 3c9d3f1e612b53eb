#ifndef ESPALIER_COMMON_HTTP_CLIENT_H_
#define ESPALIER_COMMON_HTTP_CLIENT_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace espalier::http {

// A connection to a server of HTTP/1.1 that is opened by the first request, and
// again where the server has closed it. Blocks; for one thread.
class Client {
 public:
  // "http://HOST:PORT", with or without a path behind it, which is left out.
  // INVALID_ARGUMENT: another form.
  static absl::StatusOr<std::unique_ptr<Client>> Create(absl::string_view url);
  ~Client();

  struct Options {
    absl::Duration timeout;  // of one request
    std::stop_token interrupt = {};
  };
  // Called with each part of the body as it arrives.
  using OnPart = absl::FunctionRef<void(absl::string_view part)>;
  // Posts JSON; returns the answer's status once its body is complete.
  // UNAVAILABLE: no connection, or it broke. DEADLINE_EXCEEDED. CANCELLED.
  absl::StatusOr<int> Post(absl::string_view path, absl::string_view json,
                           const Options& options, OnPart on_part);

 private:
  class Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  const std::unique_ptr<Connection> connection_;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_CLIENT_H_
