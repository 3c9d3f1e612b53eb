#include "verifier/verifier_program.h"

#include "common/config/service_flags.h"
#include "common/rpc/shutdown_signals.h"
#include "verifier/verifier_server.h"

namespace espalier::verifier {

int VerifierProgram(int argc, const char* const* argv) {
  ShutdownSignals signals;
  v1::VerifierConfig config;
  if (auto done = ConfigFromFlags(
          argc, argv,
          {"espalier-verifier", "Runs the target model and verifies trees."},
          config, signals.reload())) {
    return *done;
  }
  return ExitStatus(RunVerifier(config, signals));
}

}  // namespace espalier::verifier
