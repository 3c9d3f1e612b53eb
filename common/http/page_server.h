#ifndef ESPALIER_COMMON_HTTP_PAGE_SERVER_H_
#define ESPALIER_COMMON_HTTP_PAGE_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/server.h"

namespace espalier::http {

// A page that is served to GET requests of one path.
struct Page {
  std::string path;  // e.g. "/status.json"
  std::string content_type;
  // Returns the body for a query, the text after the question mark (may be
  // empty). Called on the server's thread.
  std::function<std::string(absl::string_view query)> body;
  // Is true if the Host of a request does not matter. Otherwise one that is not
  // an IP address, "localhost" or allowed gets 403, so that no web site can
  // read the page by letting its own name resolve to this address (DNS
  // rebinding).
  bool any_host = false;
};

// The response with a page's body. Its headers forbid content from other
// origins: a page is one document and what it requests from its own server.
Response PageResponse(const Page& page, absl::string_view query);

// Serves pages on one thread. A request has 2 s from its first byte to its
// last, there are at most 256 connections, and the one that has waited longest
// makes room for a new one: any number of slow clients delays nobody.
// Thread-safe.
class PageServer {
 public:
  struct Options {
    // Non-blocking listening TCP sockets. The server closes them.
    std::vector<int> sockets;
    std::vector<Page> pages;
    std::vector<std::string> hosts = {};  // allowed ones
    // Returns true if the sender of a request may read its page; null:
    // everybody may.
    std::function<bool(const Request&)> may_read = nullptr;
  };
  // Starts to serve. INTERNAL: a socket cannot be used.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(Options options);
  // Closes all connections.
  ~PageServer();

 private:
  explicit PageServer(Options options);
  Response Respond(const Request& request) const;

  const std::vector<Page> pages_;
  const std::vector<std::string> hosts_;
  const std::function<bool(const Request&)> may_read_;
  std::unique_ptr<Server> server_;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_PAGE_SERVER_H_
