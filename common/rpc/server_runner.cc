#include "common/rpc/server_runner.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/rpc/handled_counter.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/peer_channel.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace espalier {
namespace {

constexpr uint32_t kDefaultDrainSeconds = 10;
// For calls that only watch, when the work is done.
constexpr absl::Duration kLastGrace = absl::Milliseconds(100);

absl::StatusOr<std::vector<ListenAddress>> ParseAddresses(
    const v1::ServerConfig& config) {
  if (config.listen().empty()) {
    return absl::InvalidArgumentError("server.listen is empty");
  }
  std::vector<ListenAddress> addresses;
  std::set<std::string> seen;
  for (const std::string& text : config.listen()) {
    auto address = ListenAddress::Parse(text);
    if (!address.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("server.listen: ", address.status().message()));
    }
    const bool chosen_by_us = !address->unix_path.empty() || address->port != 0;
    if (chosen_by_us && !seen.insert(address->ToString()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("server.listen: ", text, " is there twice"));
    }
    addresses.push_back(*std::move(address));
  }
  return addresses;
}

void SetArguments(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Two servers on one port would share its connections silently.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Peers ping every 20 s (peer_channel.cc) and must not be sent away for it.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Notices a coordinator whose machine is gone, so that its sequences end.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

ServerRunner::ServerRunner(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(
    Options options) {
  std::unique_ptr<ServerRunner> runner(new ServerRunner(std::move(options)));
  const v1::ServerConfig& config = runner->options_.config;
  if (!config.metrics_listen().empty()) {
    auto metrics =
        MetricsListener::Start({.address = config.metrics_listen(),
                                .registry = runner->options_.registry,
                                .pages = runner->options_.pages});
    if (!metrics.ok()) {
      return absl::Status(
          metrics.status().code(),
          absl::StrCat("server.metrics_listen: ", metrics.status().message()));
    }
    runner->metrics_ = *std::move(metrics);
  }
  RETURN_IF_ERROR(runner->Listen());
  RETURN_IF_ERROR(runner->WriteAddressFile());
  LogInfo(absl::StrCat("listening on ", absl::StrJoin(runner->addresses_, ", "),
                       runner->metrics_
                           ? absl::StrCat("; metrics on http://",
                                          runner->metrics_address(), "/metrics")
                           : ""));
  return runner;
}

ServerRunner::~ServerRunner() {
  if (server_) server_->Shutdown(absl::ToChronoTime(absl::Now()));
}

absl::Status ServerRunner::Listen() {
  ASSIGN_OR_RETURN(std::vector<ListenAddress> addresses,
                   ParseAddresses(options_.config));
  for (const ListenAddress& address : addresses) {
    RETURN_IF_ERROR(PrepareToListen(address));
  }
  // Process-wide settings of gRPC that are the same for every server.
  grpc::EnableDefaultHealthCheckService(true);
  if (!options_.config.has_reflection() || options_.config.reflection()) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  }
  grpc::ServerBuilder builder;
  SetArguments(builder);
  std::vector<int> ports(addresses.size(), 0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i].ToString(),
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  for (const Service& service : options_.services) {
    builder.RegisterService(service.service);
  }
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(std::make_unique<HandledCounter>(*options_.registry));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  server_ = builder.BuildAndStart();
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (server_ == nullptr || ports[i] == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", addresses[i].ToString(),
                       ": gRPC refused it; its log says why"));
    }
    if (addresses[i].unix_path.empty()) addresses[i].port = ports[i];
    addresses_.push_back(addresses[i].ToString());
  }
  SetServing(false);
  return absl::OkStatus();
}

// Written beside and renamed: who waits for the file never reads half of it.
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
    stream.close();
    if (stream && std::rename(draft.c_str(), path.c_str()) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::ErrnoToStatus(
      errno, absl::StrCat("server.address_file: cannot write ", path));
}

std::string ServerRunner::metrics_address() const {
  return metrics_ ? metrics_->address() : "";
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
  // Sticky: nobody can report SERVING again.
  server_->GetHealthCheckService()->Shutdown();
  if (options_.drain) {
    options_.drain(deadline);
    // Health watchers would keep an idle server waiting to the deadline.
    server_->Shutdown(
        absl::ToChronoTime(std::min(deadline, absl::Now() + kLastGrace)));
  } else {
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
