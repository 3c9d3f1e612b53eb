// espalier-node: a verifier and drafters in one process, on one GPU.
#include "common/config/service_flags.h"
#include "common/rpc/shutdown_signals.h"
#include "verifier/node/node_server.h"

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::NodeConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv,
          {"espalier-node", "A verifier and drafters in one process."}, config,
          signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(espalier::node::RunNode(config, signals));
}
