#ifndef ESPALIER_COORDINATOR_CLI_APP_H_
#define ESPALIER_COORDINATOR_CLI_APP_H_

#include "absl/types/span.h"
#include "coordinator/cli/command.h"

namespace espalier::cli {

// Exit codes, the same for every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as in shells

// The command that `args` names; the longest name wins. Null: none.
const Command* FindCommand(absl::Span<const Command> commands, Args args);

// Runs the command that `args` names. A failure is one line on context.err.
int RunApp(absl::Span<const Command> commands, Context& context, Args args);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_APP_H_
