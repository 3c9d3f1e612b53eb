#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/config/follow_config.h"
#include "common/config/service_flags.h"
#include "common/obs/log.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/shutdown_signals.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/local_server.h"
#include "coordinator/local/serve_config.h"

namespace espalier::local {
namespace {

constexpr char kServeUsage[] = R"(Usage: espalier serve [FLAG]...

Runs verifier, drafters and coordinator in one process. Without a configuration
it serves the default model with prompt lookup and the model's own drafters, on
the address that `espalier generate` calls; --set server.listen=127.0.0.1:50051
serves over TCP. The fields are those of ServeConfig in
proto/espalier/v1/config.proto.

The status page is on 127.0.0.1:9464, or on another port if that is taken,
unless server.metrics_listen gives its address ("none": no page).)";

constexpr char kPageAddress[] = "127.0.0.1:9464";
constexpr char kHttpAddress[] = "127.0.0.1:8080";
constexpr char kAnyAddress[] = "127.0.0.1:0";

// `status`, and what to do if an address is in use.
absl::Status WithAdvice(const absl::Status& status, absl::string_view advice) {
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(
      absl::StrCat(std::string(status.message()), ". ", advice));
}

// Checked before the model is loaded, which takes seconds.
absl::Status CheckAddresses(const v1::ServeConfig& config) {
  constexpr char kAnotherCluster[] =
      "If that is the quick start's cluster: deploy/quickstart.sh --stop ends "
      "it, and --set server.listen=ADDRESS serves beside it";
  ASSIGN_OR_RETURN(
      const auto gate,
      AccessGate::Open({.roles_file = config.server().roles_file()}));
  RETURN_IF_ERROR(WithAdvice(ServerRunner::CanListen(config.server(), *gate),
                             kAnotherCluster));
  if (!config.admin_listen().empty()) {
    ASSIGN_OR_RETURN(const auto admin_gate,
                     AccessGate::Open(coordinator::AdminRules(config.admin())));
    const v1::ServerConfig admin = coordinator::AdminServerConfig(
        std::vector<std::string>(config.admin_listen().begin(),
                                 config.admin_listen().end()),
        config.admin());
    RETURN_IF_ERROR(WithAdvice(ServerRunner::CanListen(admin, *admin_gate),
                               "--set admin_listen=ADDRESS chooses another"));
  }
  if (config.http_listen().empty()) return absl::OkStatus();
  return WithAdvice(
      coordinator::HttpServer::Check(config.http_listen(), config.http()),
      "--http-listen HOST:PORT chooses another");
}

// Returns a listener's address if it is to be chosen: until then it is any.
// Null: the configuration has one, or wants none.
std::string* ToBeChosen(std::string* listen) {
  if (listen->empty()) return &listen->assign(kAnyAddress);
  if (*listen == "none") listen->clear();
  return nullptr;
}

absl::Status ChooseAddress(absl::string_view what, const char* usual,
                           std::string* listen, std::ostream& err) {
  if (listen == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress address, ListenAddress::Parse(usual));
  const absl::Status free = PrepareToListen(address);
  if (free.ok()) {
    *listen = usual;
  } else {
    err << what << " gets a port of its own: " << free.message() << std::endl;
  }
  return absl::OkStatus();
}

// Longer than a warm-up takes.
constexpr absl::Duration kWarmUp = absl::Seconds(4);

void PrintPlaces(LocalServer& server, const std::string& model,
                 std::ostream& out) {
  const ServerRunner& runner = server.runner();
  for (const std::string& address : runner.addresses()) {
    out << "serving " << model << " on " << address << std::endl;
  }
  if (!server.http_address().empty()) {
    const std::string place = absl::StrCat(
        server.http_has_tls() ? "https://" : "http://", server.http_address());
    out << "OpenAI's API: " << place << "/v1\nchat: " << place << "/#chat"
        << std::endl;
  }
  if (runner.metrics_address().empty()) return;
  out << "status page: http://" << runner.metrics_address() << "/" << std::endl;
}

// The flags of `espalier serve`, those of services and some that are short for
// a field.
struct ServeFlags {
  ServiceFlags service;
  Setting model = {"verifier.model", &service.overrides};
  Setting device = {"verifier.device", &service.overrides};
  Setting http = {"http_listen", &service.overrides};
  Setting pace = {"core.pace_ms", &service.overrides};

  void AddTo(FlagSet& flags) {
    flags.Add({"--model", "PATH",
               "another model, a folder or a .gguf file; short for\n"
               "--set verifier.model=PATH"},
              &model);
    flags.Add({"--device", "DEVICE",
               "cuda: a GPU, short for --set verifier.device=cuda;\n"
               "networks that draft run there too, unless their options\n"
               "name another device (--set\n"
               "drafters.0.options.device=cpu); --set\n"
               "verifier.compute_type=fp8 rounds the target to FP8"},
              &device);
    flags.Add({"--http-listen", "HOST:PORT",
               "where OpenAI's API is: default 127.0.0.1:8080, or another\n"
               "port if that is taken; \"none\": no HTTP; short for --set\n"
               "http_listen=HOST:PORT. Beyond the loopback it needs keys\n"
               "(--set http.keys_file=FILE) or --set http.insecure=true"},
              &http);
    flags.Add({"--pace", "MS",
               "one token a message, in steady steps; short for\n"
               "--set core.pace_ms=MS (deploy/SECURITY.md)"},
              &pace);
    service.AddTo(flags);
  }
};

absl::Status Serve(cli::Context& context, cli::Args args) {
  ServeFlags serve;
  FlagSet table(kServeUsage);
  serve.AddTo(table);
  ASSIGN_OR_RETURN(const bool runs, table.Parse(args, context.out));
  if (!runs) return absl::OkStatus();
  const ServiceFlags& flags = serve.service;
  if (flags.log_json) LogAsJson();
  ShutdownSignals signals;  // before any thread starts
  const auto load = [&flags, places = context.places] {
    return LoadServeConfig(
        {.config_file = flags.config_file, .overrides = flags.overrides},
        places);
  };
  ASSIGN_OR_RETURN(v1::ServeConfig config, load());
  RETURN_IF_ERROR(FollowConfig(
      config,
      [load](google::protobuf::Message& into) -> absl::Status {
        ASSIGN_OR_RETURN(const v1::ServeConfig again, load());
        into.CopyFrom(again);
        return absl::OkStatus();
      },
      signals.reload()));
  std::string* const page =
      ToBeChosen(config.mutable_server()->mutable_metrics_listen());
  std::string* const http = ToBeChosen(config.mutable_http_listen());
  RETURN_IF_ERROR(CheckAddresses(config));
  // Another server may take a usual port while the model is loaded.
  const auto choose_addresses = [&]() -> absl::Status {
    RETURN_IF_ERROR(
        ChooseAddress("the status page", kPageAddress, page, context.err));
    return ChooseAddress("HTTP", kHttpAddress, http, context.err);
  };
  absl::Status loss;
  Notification lost;  // then `loss` is set
  ASSIGN_OR_RETURN(auto server, LocalServer::Start(
                                    config,
                                    [&](const absl::Status& status) {
                                      loss = status;
                                      lost.Notify();
                                      signals.Raise();
                                    },
                                    choose_addresses));
  server->Follow(signals.reload());
  PrintPlaces(*server, config.verifier().model(), context.err);
  server->AwaitWarm(absl::Now() + kWarmUp);
  ServeUntilSignal(server->runner(), signals);
  return lost.HasBeenNotified() ? loss : absl::OkStatus();
}

}  // namespace

cli::Command ServeCommand() {
  return {.name = "serve",
          .summary = "run a whole cluster in one process",
          .run = Serve};
}

}  // namespace espalier::local
