#ifndef ESPALIER_COORDINATOR_CLI_RUN_MAIN_H_
#define ESPALIER_COORDINATOR_CLI_RUN_MAIN_H_

#include "absl/types/span.h"
#include "coordinator/cli/command.h"

namespace espalier::cli {

// The body of main() of a binary with these commands; returns the exit code.
int RunMain(int argc, char** argv, absl::Span<const Command> commands);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_RUN_MAIN_H_
