#include "coordinator/cli/client_commands.h"

namespace espalier::cli {

std::vector<Command> ClientCommands(const LocalClusterFactory& local_cluster) {
  return {
      GenerateCommand(local_cluster),
      ChatCommand(local_cluster),
      BenchCommand(local_cluster),
      LoadCommand(local_cluster),
      InfoCommand(),
      CheckCommand(),
      DraftersCommand(),
      ConformanceCommand(),
      TokenizeCommand(),
      NgramCommand(),
  };
}

}  // namespace espalier::cli
