#include <ostream>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/rpc/shutdown_signals.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/local_server.h"
#include "coordinator/local/serve_config.h"

namespace espalier::local {
namespace {

constexpr char kServeUsage[] =
    R"(Usage: espalier serve [--config FILE] [--set path=value]...

Verifier, drafters and coordinator in one process. Without a configuration: the
default model, prompt lookup and the model's own drafters, on the address that
`espalier generate` asks. Fields: ServeConfig in proto/espalier/v1/config.proto.
)";

absl::Status Serve(cli::Context& context, cli::Args args) {
  std::vector<const char*> argv = {"serve"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  ASSIGN_OR_RETURN(
      const ServiceFlags flags,
      ParseServiceFlags(static_cast<int>(argv.size()), argv.data()));
  if (flags.help) {
    context.out << kServeUsage;
    return absl::OkStatus();
  }
  ShutdownSignals signals;  // before any thread starts
  ASSIGN_OR_RETURN(const v1::ServeConfig config,
                   LoadServeConfig({.config_file = flags.config_file,
                                    .overrides = flags.overrides},
                                   context.places));
  ASSIGN_OR_RETURN(auto server, LocalServer::Start(config));
  for (const std::string& address : server->runner().addresses()) {
    context.err << "serving " << config.verifier().model() << " on " << address
                << std::endl;
  }
  ServeUntilSignal(server->runner(), signals);
  return absl::OkStatus();
}

}  // namespace

cli::Command ServeCommand() {
  return {.name = "serve",
          .summary = "a whole cluster in one process",
          .run = Serve};
}

}  // namespace espalier::local
