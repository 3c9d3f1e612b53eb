#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/shutdown_signals.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/local_server.h"
#include "coordinator/local/serve_config.h"

namespace espalier::local {
namespace {

constexpr char kServeUsage[] =
    R"(Usage: espalier serve [--model PATH] [--device DEVICE] [--config FILE]
                      [--set path=value]...

Runs verifier, drafters and coordinator in one process. Without a configuration
it serves the default model with prompt lookup and the model's own drafters, on
the address that `espalier generate` calls. The fields are those of ServeConfig
in proto/espalier/v1/config.proto.

Another model:  --model PATH (a folder or a .gguf file), which is short for
                --set verifier.model=PATH
A GPU:          --device cuda, which is short for --set verifier.device=cuda;
                networks that draft run there too, unless their options name
                another device (--set drafters.0.options.device=cpu);
                --set verifier.compute_type=fp8 rounds the target to FP8 weights
TCP:            --set server.listen=127.0.0.1:50051
The status page is on 127.0.0.1:9464, or on another port if that is taken,
unless server.metrics_listen gives its address ("none": no page).
)";

constexpr char kPageAddress[] = "127.0.0.1:9464";
constexpr char kAnyPageAddress[] = "127.0.0.1:0";

// Checked before the model is loaded, which takes seconds.
absl::Status CheckAddresses(const v1::ServeConfig& config) {
  absl::Status status = ServerRunner::CanListen(config.server());
  if (status.ok() && !config.admin_listen().empty()) {
    v1::ServerConfig admin;
    *admin.mutable_listen() = config.admin_listen();
    status = ServerRunner::CanListen(admin);
  }
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(
      absl::StrCat(status.message(),
                   ". If that is the quick start's cluster: "
                   "deploy/quickstart.sh --stop ends "
                   "it, and --set server.listen=ADDRESS serves beside it"));
}

// Chooses an address of the status page unless the configuration wants none.
absl::Status ChoosePageAddress(v1::ServerConfig& server, std::ostream& err) {
  if (server.metrics_listen() == "none") {
    server.clear_metrics_listen();
    return absl::OkStatus();
  }
  if (!server.metrics_listen().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress usual,
                   ListenAddress::Parse(kPageAddress));
  const absl::Status free = PrepareToListen(usual);
  if (!free.ok()) {
    err << "the status page gets a port of its own: " << free.message()
        << std::endl;
  }
  server.set_metrics_listen(free.ok() ? kPageAddress : kAnyPageAddress);
  return absl::OkStatus();
}

// Longer than a warm-up takes.
constexpr absl::Duration kWarmUp = absl::Seconds(4);

void PrintPlaces(const ServerRunner& runner, const std::string& model,
                 std::ostream& out) {
  for (const std::string& address : runner.addresses()) {
    out << "serving " << model << " on " << address << std::endl;
  }
  if (runner.metrics_address().empty()) return;
  out << "status page: http://" << runner.metrics_address() << "/" << std::endl;
}

// What is short for a field.
struct ShortFlag {
  absl::string_view name;
  absl::string_view field;
};
constexpr ShortFlag kShortFlags[] = {{"--model", "verifier.model"},
                                     {"--device", "verifier.device"}};

// The field's setting in `args` at `i`, of one word or two; empty: another
// flag.
std::string SpelledOut(const ShortFlag& flag, cli::Args args, size_t& i) {
  absl::string_view value = args[i];
  if (value == flag.name && i + 1 < args.size()) {
    return absl::StrCat("--set=", flag.field, "=", args[++i]);
  }
  if (absl::ConsumePrefix(&value, flag.name) &&
      absl::ConsumePrefix(&value, "=")) {
    return absl::StrCat("--set=", flag.field, "=", value);
  }
  return "";
}

// `args` with short flags spelled out.
std::vector<std::string> Expanded(cli::Args args) {
  std::vector<std::string> words = {"serve"};
  for (size_t i = 0; i < args.size(); ++i) {
    std::string word;
    for (const ShortFlag& flag : kShortFlags) {
      if (word.empty()) word = SpelledOut(flag, args, i);
    }
    words.push_back(word.empty() ? std::string(args[i]) : word);
  }
  return words;
}

absl::Status Serve(cli::Context& context, cli::Args args) {
  const std::vector<std::string> words = Expanded(args);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  ASSIGN_OR_RETURN(
      const ServiceFlags flags,
      ParseServiceFlags(static_cast<int>(argv.size()), argv.data()));
  if (flags.help) {
    context.out << kServeUsage;
    return absl::OkStatus();
  }
  ShutdownSignals signals;  // before any thread starts
  ASSIGN_OR_RETURN(v1::ServeConfig config,
                   LoadServeConfig({.config_file = flags.config_file,
                                    .overrides = flags.overrides},
                                   context.places));
  RETURN_IF_ERROR(ChoosePageAddress(*config.mutable_server(), context.err));
  RETURN_IF_ERROR(CheckAddresses(config));
  absl::Status loss;
  Notification lost;  // then `loss` is set
  ASSIGN_OR_RETURN(auto server,
                   LocalServer::Start(config, [&](const absl::Status& status) {
                     loss = status;
                     lost.Notify();
                     signals.Raise();
                   }));
  PrintPlaces(server->runner(), config.verifier().model(), context.err);
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
