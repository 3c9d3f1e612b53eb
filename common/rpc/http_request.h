#ifndef ESPALIER_COMMON_RPC_HTTP_REQUEST_H_
#define ESPALIER_COMMON_RPC_HTTP_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// The part of an HTTP/1.x request that our pages use.
struct HttpRequest {
  std::string method = {};
  std::string path = {};   // up to the question mark
  std::string query = {};  // after it, percent-encoded
  std::string host = {};   // of the header; empty: it is not there
};

// Largest request with its headers, in bytes.
inline constexpr size_t kMaxHttpRequest = 8192;

// Parses what has arrived. nullopt: the headers are not complete.
// INVALID_ARGUMENT: it is no request, or a larger one.
absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(
    absl::string_view bytes);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HTTP_REQUEST_H_
