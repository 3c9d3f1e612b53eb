#include "common/rpc/metrics_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/process_metrics.h"
#include "prometheus/text_serializer.h"

namespace espalier {
namespace {

// Prometheus would drop the whole page for one invalid byte.
void MakeUtf8(std::string& text) {
  for (size_t at = 0;; ++at) {
    const size_t wrong = FindInvalidUtf8(absl::string_view(text).substr(at));
    if (wrong == absl::string_view::npos) return;
    at += wrong;
    text[at] = '?';
  }
}

// Whether the host that a browser requests cannot be a web site's name that
// resolves to this address: it is allowed, or an IP address. No name consists
// of digits or begins with a bracket.
bool IsOwnHost(absl::string_view host,
               const std::vector<std::string>& page_hosts) {
  if (absl::StartsWith(host, "[")) return true;
  host = host.substr(0, host.find(':'));
  return host == "localhost" ||
         (!host.empty() &&
          host.find_first_not_of("0123456789.") == host.npos) ||
         std::find(page_hosts.begin(), page_hosts.end(), host) !=
             page_hosts.end();
}

constexpr char kMetricsPath[] = "/metrics";

std::string Response(absl::string_view status, absl::string_view body,
                     absl::string_view content_type = "text/plain",
                     absl::string_view more_headers = "") {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", content_type,
                      "\r\nContent-Length: ", body.size(),
                      "\r\nCache-Control: no-store"
                      "\r\nX-Content-Type-Options: nosniff\r\n",
                      more_headers, "Connection: close\r\n\r\n", body);
}

HttpPage MetricsPage(std::shared_ptr<prometheus::Registry> registry) {
  return {.path = kMetricsPath,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = [registry = std::move(registry)](absl::string_view) {
            return MetricsText(*registry);
          }};
}

}  // namespace

std::string MetricsText(prometheus::Registry& registry) {
  std::vector<prometheus::MetricFamily> families = registry.Collect();
  for (auto& family : ProcessMetrics().Collect()) {
    families.push_back(std::move(family));
  }
  std::string text = prometheus::TextSerializer().Serialize(families);
  MakeUtf8(text);
  return text;
}

MetricsListener::MetricsListener(Options options)
    : options_(std::move(options)), stop_(eventfd(0, EFD_CLOEXEC)) {}

MetricsListener::~MetricsListener() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (int socket : sockets_) close(socket);
  close(stop_);
}

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    Options options) {
  ASSIGN_OR_RETURN(ListenAddress address,
                   ListenAddress::Parse(options.address));
  if (!address.unix_path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics need HOST:PORT, not ", options.address));
  }
  options.pages.push_back(MetricsPage(options.registry));
  std::unique_ptr<MetricsListener> listener(
      new MetricsListener(std::move(options)));
  ASSIGN_OR_RETURN(listener->sockets_, OpenListeningSockets(address));
  listener->address_ = address.ToString();
  listener->thread_ = std::thread([server = listener.get()] { server->Run(); });
  return listener;
}

void MetricsListener::Run() {
  HttpConnections connections(
      [this](const absl::StatusOr<HttpRequest>& request) {
        return Respond(request);
      });
  while (true) {
    std::vector<pollfd> polled = {
        {.fd = stop_, .events = POLLIN, .revents = 0}};
    for (int socket : sockets_) {
      polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    }
    const size_t first = polled.size();
    const absl::Duration wait =
        std::clamp(connections.AppendTo(polled) - absl::Now(),
                   absl::ZeroDuration(), absl::Hours(1));
    poll(polled.data(), polled.size(),
         static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    if (polled[0].revents != 0) return;
    connections.Serve(polled.data() + first, absl::Now());
    for (size_t i = 1; i < first; ++i) {
      if (polled[i].revents != 0) Accept(polled[i].fd, connections);
    }
  }
}

void MetricsListener::Accept(int listener, HttpConnections& connections) {
  constexpr int kPauseMs = 10;
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    connections.Add(fd, absl::Now());
  } else if (errno == EMFILE || errno == ENFILE) {
    poll(nullptr, 0, kPauseMs);  // the connection waits in the system's queue
  }
}

// The headers forbid content from other origins: a page is one document and
// what it requests from its own server.
std::string MetricsListener::Respond(
    const absl::StatusOr<HttpRequest>& request) const {
  if (!request.ok()) {
    return Response("400 Bad Request", request.status().message());
  }
  if (request->method != "GET" && request->method != "HEAD") {
    return Response("405 Method Not Allowed", "pages can only be read",
                    "text/plain", "Allow: GET, HEAD\r\n");
  }
  const auto page = std::find_if(options_.pages.begin(), options_.pages.end(),
                                 [&](const HttpPage& candidate) {
                                   return candidate.path == request->path;
                                 });
  if (page == options_.pages.end()) {
    return Response("404 Not Found", "no such page");
  }
  if (page->path != kMetricsPath &&
      !IsOwnHost(request->host, options_.page_hosts)) {
    return Response("403 Forbidden",
                    "ask by IP address, or set server.page_hosts");
  }
  std::string response = Response(
      "200 OK", page->body(request->query), page->content_type,
      "Content-Security-Policy: default-src 'none'; connect-src 'self'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'\r\n");
  if (request->method == "HEAD") {
    response.resize(response.find("\r\n\r\n") + 4);
  }
  return response;
}

}  // namespace espalier
