#include "common/rpc/metrics_listener.h"

#include <exception>
#include <utility>

#include "CivetServer.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/process_metrics.h"
#include "prometheus/text_serializer.h"

namespace espalier {
namespace {

HttpPage MetricsPage(std::shared_ptr<prometheus::Registry> registry) {
  return {.path = "/metrics",
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = [registry = std::move(registry)](absl::string_view) {
            std::vector<prometheus::MetricFamily> families =
                registry->Collect();
            for (auto& family : ProcessMetrics().Collect()) {
              families.push_back(std::move(family));
            }
            return prometheus::TextSerializer().Serialize(families);
          }};
}

}  // namespace

// Nothing may come from elsewhere: a page is one document and what it asks its
// own server for.
class MetricsListener::PageHandler final : public CivetHandler {
 public:
  explicit PageHandler(HttpPage page) : page_(std::move(page)) {}

  const std::string& path() const { return page_.path; }

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const mg_request_info& request = *mg_get_request_info(connection);
    // The server hands "/" whatever has no page of its own.
    if (page_.path != request.local_uri) {
      mg_send_http_error(connection, 404, "%s", "no such page");
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
};

MetricsListener::MetricsListener() = default;

MetricsListener::~MetricsListener() = default;

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
        "listening_ports", address.ToString(), "num_threads", "2"});
    address.port = listener->server_->getListeningPorts().at(0);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": ", error.what()));
  }
  options.pages.push_back(MetricsPage(std::move(options.registry)));
  for (HttpPage& page : options.pages) {
    listener->handlers_.push_back(
        std::make_unique<PageHandler>(std::move(page)));
    PageHandler& handler = *listener->handlers_.back();
    listener->server_->addHandler(handler.path(), handler);
  }
  listener->address_ = address.ToString();
  return listener;
}

}  // namespace espalier
