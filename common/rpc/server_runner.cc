#include "common/rpc/server_runner.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/descriptor_limit.h"
#include "common/base/mutex.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/base/token_bucket.h"
#include "common/obs/log.h"
#include "common/obs/metrics.h"
#include "common/rpc/handled_counter.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/listeners.h"
#include "common/rpc/metrics_text.h"
#include "common/rpc/peer_channel.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace espalier {
namespace {

constexpr uint32_t kDefaultDrainSeconds = 10;
// After draining, for calls that only watch (e.g. health).
constexpr absl::Duration kLastGrace = absl::Milliseconds(100);

constexpr size_t kShownBytes = 256;  // of others' messages in the log

// Protobuf's errors about malformed messages quote the sender, so they are
// bounded and made printable.
void LogProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/,
                 int /*line*/, const std::string& message) {
  LogWarning(absl::StrCat("protobuf: ", Printable(message, kShownBytes)));
}

// What gRPC may hold for all connections together: bytes that were read and
// calls that have begun. Above it, gRPC ends calls at random, so
// ConnectionGuard should act before. Threads are for methods that block, which
// is reflection.
constexpr size_t kQuotaBytes = size_t{384} << 20;
constexpr int kQuotaThreads = 32;

// gRPC's own messages, which callers can cause, are bounded as well.
void LogGrpc(gpr_log_func_args* message) {
  static Mutex mutex;
  static TokenBucket* const bucket = new TokenBucket(20, 0.2);
  static int64_t dropped = 0;
  MutexLock lock(&mutex);
  if (!bucket->Take(absl::Now())) {
    ++dropped;
    return;
  }
  LogWarning(absl::StrCat(
      "gRPC: ", Printable(message->message, kShownBytes),
      dropped > 0 ? absl::StrCat(" (", dropped, " more were dropped)") : ""));
  dropped = 0;
}

void SetLimits(grpc::ServerBuilder& builder, int max_message_bytes,
               int max_streams) {
  builder.SetMaxReceiveMessageSize(max_message_bytes);
  builder.SetMaxSendMessageSize(max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, max_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  grpc::ResourceQuota quota("server");
  quota.Resize(kQuotaBytes);
  quota.SetMaxThreads(kQuotaThreads);
  builder.SetResourceQuota(quota);
}

void SetArguments(grpc::ServerBuilder& builder) {
  // No compression: a small compressed message may expand to a large one.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Otherwise two servers on one port would silently share its connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Peers ping every 20 s (peer_channel.cc), which must not end the connection.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Detects a coordinator whose machine is gone, so that its sequences end.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// An error about the address of the metrics.
absl::Status OfMetrics(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("server.metrics_listen: ", std::string(status.message()),
                   absl::IsAlreadyExists(status)
                       ? ". The metrics can have another port: --set "
                         "server.metrics_listen=127.0.0.1:PORT"
                       : ""));
}

bool IsTcp(int descriptor) {
  int domain = AF_UNIX;
  socklen_t size = sizeof(domain);
  getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain != AF_UNIX;
}

constexpr char kMetricsPath[] = "/metrics";

auto AddAcceptor(grpc::ServerBuilder& builder,
                 std::shared_ptr<grpc::ServerCredentials> credentials) {
  return builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

http::Page MetricsPage(std::shared_ptr<prometheus::Registry> registry) {
  return {.path = kMetricsPath,
          .content_type = kMetricsContentType,
          .body = [registry = std::move(registry)](
                      absl::string_view) { return MetricsText(*registry); },
          .any_host = true};
}

}  // namespace

ServerRunner::ServerRunner(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(
    Options options) {
  std::unique_ptr<ServerRunner> runner(new ServerRunner(std::move(options)));
  ASSIGN_OR_RETURN(
      runner->open_listeners_,
      OpenListeners(runner->options_.config, runner->options_.gate->asks()));
  for (const std::string& line : runner->open_listeners_) LogWarning(line);
  RETURN_IF_ERROR(runner->OpenTls());
  RETURN_IF_ERROR(runner->ServeMetrics());
  RETURN_IF_ERROR(runner->Listen());
  RETURN_IF_ERROR(runner->WriteAddressFile());
  LogInfo(absl::StrCat("listening on ", absl::StrJoin(runner->addresses_, ", "),
                       runner->metrics_
                           ? absl::StrCat("; metrics on http://",
                                          runner->metrics_address(), "/metrics")
                           : "",
                       runner->options_.http_address.empty()
                           ? ""
                           : absl::StrCat("; API over HTTP on ",
                                          runner->options_.http_address)));
  return runner;
}

absl::Status ServerRunner::CanListen(const v1::ServerConfig& config,
                                     const AccessGate& gate) {
  RETURN_IF_ERROR(OpenListeners(config, gate.asks()).status());
  ASSIGN_OR_RETURN(const std::vector<ListenAddress> addresses,
                   ListenersOf(config));
  for (const ListenAddress& address : addresses) {
    RETURN_IF_ERROR(PrepareToListen(address));
  }
  RETURN_IF_ERROR(
      WithPrefix("server.tls", OpenServerCertificates(config.tls())).status());
  ASSIGN_OR_RETURN(const std::optional<ListenAddress> metrics,
                   MetricsListenerOf(config));
  return metrics ? OfMetrics(PrepareToListen(*metrics)) : absl::OkStatus();
}

ServerRunner::~ServerRunner() {
  listener_.reset();
  if (server_) server_->Shutdown(absl::ToChronoTime(absl::Now()));
  if (guard_) guard_->Stop();
}

absl::Status ServerRunner::OpenTls() {
  ASSIGN_OR_RETURN(
      auto files,
      WithPrefix("server.tls", OpenServerCertificates(options_.config.tls())));
  if (files == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(tls_, ServerTls::Make(std::move(files)));
  tls_expires_ = &AddGauge(
      *options_.registry,
      {.name = "espalier_tls_certificate_expiry_seconds",
       .help = "When a listener's certificate expires, in seconds since 1970.",
       .labels = {{"file", options_.config.tls().certificate_file()}}});
  tls_expires_->Set(static_cast<double>(absl::ToUnixSeconds(tls_->expires())));
  return absl::OkStatus();
}

absl::Status ServerRunner::ServeMetrics() {
  const v1::ServerConfig& config = options_.config;
  ASSIGN_OR_RETURN(std::optional<ListenAddress> address,
                   MetricsListenerOf(config));
  if (!address) return absl::OkStatus();
  std::vector<http::Page> pages = options_.pages;
  pages.push_back(MetricsPage(options_.registry));
  absl::StatusOr<std::vector<int>> sockets = OpenListeningSockets(*address);
  if (!sockets.ok()) return OfMetrics(sockets.status());
  ASSIGN_OR_RETURN(
      metrics_, http::PageServer::Start({.sockets = *std::move(sockets),
                                         .pages = std::move(pages),
                                         .hosts = {config.page_hosts().begin(),
                                                   config.page_hosts().end()},
                                         .may_read = PagePermission()}));
  metrics_address_ = address->ToString();
  return absl::OkStatus();
}

// Pages beside the metrics describe requests. A secret that drafters share with
// the coordinator (token_file) opens no page.
std::function<bool(const http::Request&)> ServerRunner::PagePermission() const {
  if (options_.config.roles_file().empty()) return nullptr;
  return [gate = options_.gate](const http::Request& request) {
    const absl::string_view shown = request.Header("Authorization");
    return gate->AdmitHeader(shown, {Role::kOperator}).ok() ||
           (request.path == kMetricsPath &&
            gate->AdmitHeader(shown, {Role::kScrape}).ok());
  };
}

absl::Status ServerRunner::Listen() {
  ASSIGN_OR_RETURN(std::vector<ListenAddress> addresses,
                   ListenersOf(options_.config));
  RaiseDescriptorLimit();
  ASSIGN_OR_RETURN(
      listener_,
      ConnectionListener::Open(
          std::move(addresses),
          AddCounter(*options_.registry,
                     {.name = "espalier_connections_delayed_total",
                      .help = "Times that connections had to wait, because "
                              "too many were open."})));
  for (const ListenAddress& address : listener_->addresses()) {
    addresses_.push_back(address.ToString());
  }
  RETURN_IF_ERROR(StartServer());
  SetServing(false);
  ConnectionGuard::Limits limits;
  limits.connection.max_streams = static_cast<size_t>(options_.max_streams);
  guard_ = ConnectionGuard::New(limits, options_.registry);
  listener_->Start([this](int descriptor) { Take(descriptor); },
                   [this] { Tick(); });
  return absl::OkStatus();
}

// Runs on the listener's thread, as does Tick.
void ServerRunner::Take(int descriptor) {
  const bool has_tls = tls_ != nullptr && IsTcp(descriptor);
  if (!guard_->Watch(descriptor, has_tls)) {
    close(descriptor);
    return;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      connection;
  connection.fd = descriptor;
  (has_tls ? tls_acceptor_ : acceptor_)->HandleNewConnection(&connection);
}

void ServerRunner::Tick() {
  guard_->Sweep(absl::Now());
  if (tls_ == nullptr) return;
  tls_->Refresh();
  tls_expires_->Set(static_cast<double>(absl::ToUnixSeconds(tls_->expires())));
}

absl::Status ServerRunner::StartServer() {
  // Process-wide settings that are the same for every server.
  google::protobuf::SetLogHandler(LogProtobuf);
  gpr_set_log_function(LogGrpc);
  grpc::EnableDefaultHealthCheckService(true);
  if (!options_.config.has_reflection() || options_.config.reflection()) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  }
  grpc::ServerBuilder builder;
  SetLimits(builder, options_.max_message_bytes, options_.max_streams);
  SetArguments(builder);
  acceptor_ = AddAcceptor(builder, grpc::InsecureServerCredentials());
  if (tls_) tls_acceptor_ = AddAcceptor(builder, tls_->NewCredentials());
  std::vector<std::string> names;
  for (const Service& service : options_.services) {
    builder.RegisterService(service.service);
    names.push_back(service.name);
  }
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(
      std::make_unique<HandledCounter>(*options_.registry, names));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  server_ = builder.BuildAndStart();
  if (server_ != nullptr) return absl::OkStatus();
  return absl::InternalError("gRPC's server does not start; its log says why");
}

// Writes a temporary file and renames it, so that a process that waits for the
// file never reads half of it.
absl::Status ServerRunner::WriteAddressFile() const {
  const std::string& path = options_.config.address_file();
  if (path.empty()) return absl::OkStatus();
  const std::string draft = path + ".part";
  {
    std::ofstream stream(draft, std::ios::trunc);
    for (const std::string& address : addresses_) {
      stream << "grpc " << address << "\n";
    }
    if (metrics_) stream << "metrics " << metrics_address() << "\n";
    if (!options_.http_address.empty()) {
      stream << "http " << options_.http_address << "\n";
    }
    stream.close();
    if (stream && std::rename(draft.c_str(), path.c_str()) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::ErrnoToStatus(
      errno, absl::StrCat("server.address_file: cannot write ", path));
}

void ServerRunner::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  for (const Service& service : options_.services) {
    health->SetServingStatus(service.name, serving);
  }
}

absl::Duration ServerRunner::drain_time() const {
  return absl::Seconds(options_.config.has_drain_seconds()
                           ? options_.config.drain_seconds()
                           : kDefaultDrainSeconds);
}

void ServerRunner::DrainAndStop() {
  const absl::Time deadline = absl::Now() + drain_time();
  // Final: SERVING cannot be reported again.
  server_->GetHealthCheckService()->Shutdown();
  if (options_.drain) {
    options_.drain(deadline);
    listener_.reset();
    // Health watchers would keep an idle server waiting until the deadline.
    server_->Shutdown(
        absl::ToChronoTime(std::min(deadline, absl::Now() + kLastGrace)));
  } else {
    listener_.reset();
    server_->Shutdown(absl::ToChronoTime(deadline));
  }
}

int ServeUntilSignal(ServerRunner& runner, ShutdownSignals& signals) {
  runner.SetServing(true);
  LogInfo("serving");
  const int signal_number = signals.Wait();
  LogInfo(absl::StrCat("signal ", signal_number, ": draining"));
  runner.DrainAndStop();
  LogInfo("stopped");
  return 0;
}

}  // namespace espalier
