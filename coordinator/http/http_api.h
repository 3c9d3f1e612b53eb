#ifndef ESPALIER_COORDINATOR_HTTP_HTTP_API_H_
#define ESPALIER_COORDINATOR_HTTP_HTTP_API_H_

#include <memory>
#include <string>
#include <vector>

#include "common/http/answer.h"
#include "coordinator/http/api_keys.h"
#include "coordinator/http/http_metrics.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {

// The API over HTTP: who may call, and which route answers. Outlives its
// answers. Thread-safe.
class HttpApi {
 public:
  struct Access {
    std::shared_ptr<ApiKeys> keys;  // null: none are needed
    // Origins of web pages that may call: "https://...", or "*".
    std::vector<std::string> allowed_origins = {};
    // Without keys, the names by which the server may be called, besides IP
    // addresses and "localhost" (IsOwnHost).
    std::vector<std::string> hosts = {};
    bool any_host = false;
  };
  HttpApi(const ApiContext& context, Access access);

  std::unique_ptr<http::Answer> Handle(http::Request request, http::Wake wake);

 private:
  const Route* Find(const http::Request& request) const;
  // Fills in request.caller.
  absl::Status CheckCaller(bool needs_key, http::Request& request) const;
  bool AllowsOrigin(absl::string_view origin) const;
  std::unique_ptr<http::Answer> NoRoute(const http::Request& request) const;
  http::Headers CrossOrigin(const http::Request& request) const;

  const Access access_;
  HttpMetrics metrics_;
  Routes routes_;  // constant after construction
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_HTTP_API_H_
