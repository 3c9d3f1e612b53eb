// espalier-verifier: runs the target model behind the Verifier service.
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/obs/log.h"
#include "common/rpc/access_token.h"
#include "common/rpc/server_runner.h"
#include "verifier/verifier_builder.h"
#include "verifier/verifier_service.h"

namespace {

using espalier::ServerRunner;

absl::StatusOr<int> Run(const espalier::v1::VerifierConfig& config,
                        espalier::ShutdownSignals& signals) {
  ASSIGN_OR_RETURN(auto token,
                   espalier::AccessToken::ReadFile(config.token_file()));
  auto metrics = std::make_shared<prometheus::Registry>();
  ASSIGN_OR_RETURN(auto engine, espalier::verifier::BuildVerifier(
                                    config.engine(), *metrics));
  espalier::LogInfo(absl::StrCat("model ", engine->info().model.name, " on ",
                                 engine->info().device));
  espalier::verifier::VerifierService service(*engine, engine->info(),
                                              std::move(token));
  ASSIGN_OR_RETURN(
      auto runner,
      ServerRunner::Start(
          {.config = config.server(),
           .services = {{"espalier.v1.Verifier", &service}},
           .registry = metrics,
           .drain = [&](absl::Time deadline) { service.Drain(deadline); }}));
  return ServeUntilSignal(*runner, signals);
}

}  // namespace

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::VerifierConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv,
          {"espalier-verifier", "Runs the target model and verifies trees."},
          config)) {
    return *done;
  }
  return espalier::ExitStatus(Run(config, signals));
}
