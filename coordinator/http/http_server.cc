#include "coordinator/http/http_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/http/server.h"
#include "common/obs/log.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/server_tls.h"
#include "coordinator/http/api_keys.h"
#include "coordinator/http/http_api.h"

namespace espalier::coordinator {
namespace {

constexpr uint32_t kDefaultBodyKib = 8192;
constexpr uint32_t kDefaultConnections = 4096;

absl::Status CheckLimit(absl::string_view field, uint32_t value,
                        uint32_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("http.", field, ": ", value, " is not in 1 .. ", most));
}

absl::StatusOr<http::Limits> LimitsOf(const v1::HttpConfig& config) {
  http::Limits limits;
  const uint32_t kib =
      config.has_max_body_kib() ? config.max_body_kib() : kDefaultBodyKib;
  RETURN_IF_ERROR(CheckLimit("max_body_kib", kib, 1 << 20));
  limits.body_bytes = size_t{kib} << 10;
  limits.all_body_bytes =
      std::max(limits.all_body_bytes, 4 * limits.body_bytes);
  const uint32_t connections = config.has_max_connections()
                                   ? config.max_connections()
                                   : kDefaultConnections;
  RETURN_IF_ERROR(CheckLimit("max_connections", connections, 1 << 16));
  limits.max_connections = connections;
  return limits;
}

absl::Status OfListen(const absl::Status& status) {
  return WithPrefix("http_listen", status);
}

// Whether everybody who reaches the address may use the server.
bool IsOpen(const ListenAddress& address, const v1::HttpConfig& config) {
  return !address.IsLocal() && config.keys_file().empty() &&
         config.tls().certificate_file().empty();
}

absl::StatusOr<std::shared_ptr<CertificateFiles>> CertificatesOf(
    const v1::HttpConfig& config) {
  return WithPrefix("http.tls", OpenServerCertificates(config.tls()));
}

absl::StatusOr<ListenAddress> AddressOf(const std::string& listen,
                                        const v1::HttpConfig& config) {
  auto address = ListenAddress::Parse(listen);
  if (!address.ok()) return OfListen(address.status());
  if (!address->unix_path.empty()) {
    return absl::InvalidArgumentError("http_listen: HTTP needs HOST:PORT");
  }
  if (IsOpen(*address, config) && !config.insecure()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "http_listen: everybody who reaches ", listen,
        " could use the server: set http.keys_file or http.tls, or "
        "http.insecure to allow it"));
  }
  return address;
}

absl::StatusOr<HttpApi::Access> AccessOf(const v1::HttpConfig& config) {
  HttpApi::Access access = {
      .keys = nullptr,
      .allowed_origins = {config.allowed_origins().begin(),
                          config.allowed_origins().end()},
      .hosts = {config.hosts().begin(), config.hosts().end()},
      .any_host = config.insecure()};
  if (config.keys_file().empty()) return access;
  ASSIGN_OR_RETURN(
      access.keys,
      WithPrefix("http.keys_file", ApiKeys::ReadFile(config.keys_file())));
  return access;
}

}  // namespace

absl::Status HttpServer::Check(const std::string& listen,
                               const v1::HttpConfig& config) {
  RETURN_IF_ERROR(LimitsOf(config).status());
  ASSIGN_OR_RETURN(const ListenAddress address, AddressOf(listen, config));
  RETURN_IF_ERROR(AccessOf(config).status());
  RETURN_IF_ERROR(CertificatesOf(config).status());
  return OfListen(PrepareToListen(address));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& listen, const v1::HttpConfig& config,
    ApiContext context) {
  std::unique_ptr<HttpServer> server(new HttpServer());
  ASSIGN_OR_RETURN(const http::Limits limits, LimitsOf(config));
  ASSIGN_OR_RETURN(ListenAddress address, AddressOf(listen, config));
  ASSIGN_OR_RETURN(HttpApi::Access access, AccessOf(config));
  server->keys_ = access.keys;
  ASSIGN_OR_RETURN(auto certificates, CertificatesOf(config));
  server->has_tls_ = certificates != nullptr;
  if (IsOpen(address, config)) {
    server->open_listeners_ = {absl::StrCat(
        "http_listen: everybody who reaches ", listen, " can use the server")};
    LogWarning(server->open_listeners_[0]);
  }
  context.readiness = [self = server.get(),
                       inner = std::move(context.readiness)] {
    return self->draining_ ? absl::UnavailableError("the server is draining")
                           : inner();
  };
  server->api_ = std::make_unique<HttpApi>(context, std::move(access));
  absl::StatusOr<std::vector<int>> sockets = OpenListeningSockets(address);
  if (!sockets.ok()) return OfListen(sockets.status());
  server->address_ = address.ToString();
  ASSIGN_OR_RETURN(
      server->server_,
      http::Server::Start({.sockets = *std::move(sockets),
                           .handler =
                               [api = server->api_.get()](http::Request request,
                                                          http::Wake wake) {
                                 return api->Handle(std::move(request),
                                                    std::move(wake));
                               },
                           .limits = limits,
                           .certificates = std::move(certificates)}));
  return server;
}

HttpServer::~HttpServer() = default;

absl::StatusOr<Reload::Install> HttpServer::ReadAgain() {
  if (keys_ == nullptr) return [] {};
  return keys_->ReadAgain();
}

void HttpServer::Drain(absl::Time deadline) { server_->Drain(deadline); }

}  // namespace espalier::coordinator
