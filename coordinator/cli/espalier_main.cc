#include <string>
#include <vector>

#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/engine_sibling.h"
#include "coordinator/cli/run_main.h"

int main(int argc, char** argv) {
  using espalier::cli::Command;
  const espalier::cli::EngineSibling sibling(
      espalier::cli::ExecutableDir(),
      std::vector<std::string>(argv + 1, argv + argc));
  std::vector<Command> commands =
      espalier::cli::ClientCommands(sibling.AsLocalClusterFactory());
  commands.push_back(
      sibling.AsCommand("serve", "a whole cluster in one process"));
  commands.push_back(sibling.AsCommand(
      "bench forward", "time the target's forward pass by rows"));
  commands.push_back(sibling.AsCommand("bench quality",
                                       "what a compute type costs in quality"));
  commands.push_back(
      sibling.AsCommand("lab", "the algorithms alone, without a model"));
  return espalier::cli::RunMain(argc, argv, commands);
}
