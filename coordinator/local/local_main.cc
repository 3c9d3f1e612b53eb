// espalier-local: the command with an engine. `espalier` hands commands that
// need one over to it, so that `espalier` itself needs no libtorch.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/run_main.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/in_process_cluster.h"
#include "coordinator/local/lab/lab_command.h"

int main(int argc, char** argv) {
  std::vector<espalier::cli::Command> commands =
      espalier::cli::ClientCommands(espalier::local::InProcessClusterFactory());
  commands.push_back(espalier::local::ServeCommand());
  commands.push_back(espalier::local::BenchForwardCommand());
  commands.push_back(espalier::local::BenchQualityCommand());
  commands.push_back(espalier::local::LabCommand());
  return espalier::cli::RunMain(argc, argv, commands);
}
