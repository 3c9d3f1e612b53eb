// A request and a response of HTTP, as plain structs.
#ifndef ESPALIER_COMMON_HTTP_MESSAGE_H_
#define ESPALIER_COMMON_HTTP_MESSAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace espalier::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;  // "GET", ...
  std::string path;    // as sent, up to the question mark
  std::string query;   // what follows it
  Headers headers = {};
  std::string body = {};
  std::string peer = {};  // address of the client, as gRPC writes it
  // The name of the credential that it has shown, filled in by who checks that.
  std::string caller = {};

  // The value of the first header with this name, in any case; or empty.
  absl::string_view Header(absl::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (absl::EqualsIgnoreCase(key, name)) return value;
    }
    return "";
  }
};

// Framing headers (Content-Length, Connection, ...) are the server's own.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_MESSAGE_H_
