// espalier-drafter: serves one drafter as the Drafter service.
#include "common/config/service_flags.h"
#include "common/rpc/shutdown_signals.h"
#include "drafter/drafter_server.h"
#include "drafter/drafters.h"

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::DrafterConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv, {"espalier-drafter", "Proposes trees of tokens."}, config,
          signals.reload())) {
    return *done;
  }
  espalier::drafter::DrafterRegistry types("drafter type");
  espalier::drafter::RegisterDrafters(types);
  return espalier::ExitStatus(
      espalier::drafter::RunDrafter(config, types, signals));
}
