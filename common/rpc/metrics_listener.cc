#include "common/rpc/metrics_listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "CivetServer.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

// Connects to "HOST:PORT" of this machine and closes the connection.
void TouchListener(const std::string& address) {
  const auto parsed = ListenAddress::Parse(address);
  if (!parsed.ok()) return;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(),
                  &hints, &found) != 0) {
    return;
  }
  const int fd =
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    (void)connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

HttpPage MetricsPage(std::shared_ptr<prometheus::Registry> registry) {
  return {.path = kMetricsPath,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = [registry = std::move(registry)](absl::string_view) {
            std::vector<prometheus::MetricFamily> families =
                registry->Collect();
            for (auto& family : ProcessMetrics().Collect()) {
              families.push_back(std::move(family));
            }
            std::string text = prometheus::TextSerializer().Serialize(families);
            MakeUtf8(text);
            return text;
          }};
}

}  // namespace

// Its headers forbid content from other origins: a page is one document and
// what it requests from its own server.
class MetricsListener::PageHandler final : public CivetHandler {
 public:
  PageHandler(HttpPage page, std::vector<std::string> page_hosts)
      : page_(std::move(page)), page_hosts_(std::move(page_hosts)) {}

  const std::string& path() const { return page_.path; }

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const mg_request_info& request = *mg_get_request_info(connection);
    // The server passes requests for unknown paths to the page "/".
    if (page_.path != request.local_uri) {
      mg_send_http_error(connection, 404, "%s", "no such page");
      return true;
    }
    const char* const host = mg_get_header(connection, "Host");
    if (page_.path != kMetricsPath &&
        !IsOwnHost(host != nullptr ? host : "", page_hosts_)) {
      mg_send_http_error(connection, 403, "%s",
                         "ask by IP address, or set server.page_hosts");
      return true;
    }
    const std::string body =
        page_.body(request.query_string ? request.query_string : "");
    const std::string head = absl::StrCat(
        "HTTP/1.1 200 OK\r\nContent-Type: ", page_.content_type,
        "\r\nContent-Length: ", body.size(),
        "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
        "\r\nContent-Security-Policy: default-src 'none'; connect-src 'self'; "
        "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
        "\r\nConnection: close\r\n\r\n");
    mg_write(connection, head.data(), head.size());
    mg_write(connection, body.data(), body.size());
    return true;
  }

 private:
  const HttpPage page_;
  const std::vector<std::string> page_hosts_;
};

MetricsListener::MetricsListener() = default;

// The server notices that it is to stop when a connection arrives, or after a
// second or two.
MetricsListener::~MetricsListener() {
  if (server_ == nullptr) return;
  const std::jthread visitor([this](std::stop_token stop) {
    while (!stop.stop_requested()) {
      TouchListener(address_);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  server_.reset();
}

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    Options options) {
  ASSIGN_OR_RETURN(ListenAddress address,
                   ListenAddress::Parse(options.address));
  if (!address.unix_path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics need HOST:PORT, not ", options.address));
  }
  RETURN_IF_ERROR(PrepareToListen(address));
  std::unique_ptr<MetricsListener> listener(new MetricsListener());
  try {
    listener->server_ = std::make_unique<CivetServer>(std::vector<std::string>{
        "listening_ports", address.ToString(),
        // Each connection has its own thread, and 2 s to send a request.
        "num_threads", "16", "request_timeout_ms", "2000"});
    address.port = listener->server_->getListeningPorts().at(0);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": ", error.what()));
  }
  options.pages.push_back(MetricsPage(std::move(options.registry)));
  for (HttpPage& page : options.pages) {
    listener->handlers_.push_back(
        std::make_unique<PageHandler>(std::move(page), options.page_hosts));
    PageHandler& handler = *listener->handlers_.back();
    listener->server_->addHandler(handler.path(), handler);
  }
  listener->address_ = address.ToString();
  return listener;
}

}  // namespace espalier
