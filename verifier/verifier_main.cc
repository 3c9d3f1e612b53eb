// espalier-verifier: runs the target model behind the Verifier service.
#include "common/config/service_flags.h"
#include "common/rpc/shutdown_signals.h"
#include "verifier/verifier_server.h"

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::VerifierConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv,
          {"espalier-verifier", "Runs the target model and verifies trees."},
          config, signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(espalier::verifier::RunVerifier(config, signals));
}
