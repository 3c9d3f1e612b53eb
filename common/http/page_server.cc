#include "common/http/page_server.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/http/own_host.h"

namespace espalier::http {
namespace {

// A page has no body, so a request is its header.
constexpr Limits kLimits = {.max_connections = 256,
                            .header_bytes = 8 << 10,
                            .body_bytes = 0,
                            .all_body_bytes = 0,
                            .header_time = absl::Seconds(2),
                            .body_time = absl::Seconds(2),
                            .write_time = absl::Seconds(10)};

Response Refusal(int status, std::string message) {
  return {.status = status,
          .content_type = "text/plain",
          .body = std::move(message),
          .headers = {{"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace

Response PageResponse(const Page& page, absl::string_view query) {
  return {.content_type = page.content_type,
          .body = page.body(query),
          .headers = {{"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Content-Security-Policy",
                       "default-src 'none'; connect-src 'self'; script-src "
                       "'unsafe-inline'; style-src 'unsafe-inline'"}}};
}

PageServer::PageServer(Options options)
    : pages_(std::move(options.pages)),
      hosts_(std::move(options.hosts)),
      may_read_(std::move(options.may_read)) {}

PageServer::~PageServer() = default;

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(Options options) {
  std::vector<int> sockets = std::move(options.sockets);
  std::unique_ptr<PageServer> pages(new PageServer(std::move(options)));
  ASSIGN_OR_RETURN(
      pages->server_,
      Server::Start(
          {.sockets = std::move(sockets),
           .handler =
               [self = pages.get()](const Request& request, const Wake&) {
                 return std::make_unique<WholeAnswer>(self->Respond(request));
               },
           .limits = kLimits,
           .num_threads = 1}));
  return pages;
}

Response PageServer::Respond(const Request& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    Response refusal = Refusal(405, "pages can only be read");
    refusal.headers.emplace_back("Allow", "GET, HEAD");
    return refusal;
  }
  const auto page = std::find_if(
      pages_.begin(), pages_.end(),
      [&](const Page& candidate) { return candidate.path == request.path; });
  if (page == pages_.end()) return Refusal(404, "no such page");
  if (!page->any_host && !IsOwnHost(request.Header("Host"), hosts_)) {
    return Refusal(403, "ask by IP address, or set server.page_hosts");
  }
  if (may_read_ != nullptr && !may_read_(request)) {
    // Browsers then ask for a password, which is the token.
    Response refusal = Refusal(401, "show a token that may read this page");
    refusal.headers.emplace_back("WWW-Authenticate",
                                 "Basic realm=\"espalier\"");
    return refusal;
  }
  return PageResponse(*page, request.query);
}

}  // namespace espalier::http
