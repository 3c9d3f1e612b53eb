// The commands of `espalier` that need no engine in the process, one file each.
#ifndef ESPALIER_COORDINATOR_CLI_CLIENT_COMMANDS_H_
#define ESPALIER_COORDINATOR_CLI_CLIENT_COMMANDS_H_

#include <vector>

#include "coordinator/cli/command.h"
#include "coordinator/cli/local_cluster.h"

namespace espalier::cli {

Command GenerateCommand(LocalClusterFactory local_cluster);
Command ChatCommand(LocalClusterFactory local_cluster);
Command BenchCommand(LocalClusterFactory local_cluster);
Command LoadCommand(LocalClusterFactory local_cluster);
Command InfoCommand();
Command CheckCommand();
Command DraftersCommand();
Command ConformanceCommand();
Command TokenizeCommand();
Command NgramCommand();

// All of these. `local_cluster` serves --local.
std::vector<Command> ClientCommands(const LocalClusterFactory& local_cluster);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CLIENT_COMMANDS_H_
