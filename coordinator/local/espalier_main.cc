// `espalier`: the client commands, and those that run a model in this process.
#include <vector>

#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/run_main.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/in_process_cluster.h"
#include "lab/lab_command.h"

int main(int argc, char** argv) {
  std::vector<espalier::cli::Command> commands =
      espalier::cli::ClientCommands(espalier::local::InProcessClusterFactory());
  commands.push_back(espalier::local::ServeCommand());
  commands.push_back(espalier::local::BenchForwardCommand());
  commands.push_back(espalier::local::BenchQualityCommand());
  commands.push_back(espalier::lab::LabCommand());
  return espalier::cli::RunMain(argc, argv, commands);
}
