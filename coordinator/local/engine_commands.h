// The commands of `espalier` that need an engine in the process, one file each.
#ifndef ESPALIER_COORDINATOR_LOCAL_ENGINE_COMMANDS_H_
#define ESPALIER_COORDINATOR_LOCAL_ENGINE_COMMANDS_H_

#include "coordinator/cli/command.h"

namespace espalier::local {

cli::Command ServeCommand();
cli::Command BenchForwardCommand();
cli::Command BenchQualityCommand();

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_ENGINE_COMMANDS_H_
