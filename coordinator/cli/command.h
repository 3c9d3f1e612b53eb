#ifndef ESPALIER_COORDINATOR_CLI_COMMAND_H_
#define ESPALIER_COORDINATOR_CLI_COMMAND_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/cli/context.h"

namespace espalier::cli {

using Args = absl::Span<const std::string>;  // behind the command's name

// One of the things that `espalier` does.
struct Command {
  std::string name;     // one word, or two: "bench forward"
  std::string summary;  // one line of `espalier help`
  // INVALID_ARGUMENT and NOT_FOUND: the user's input is at fault (exit 2).
  std::function<absl::Status(Context&, Args)> run;
  // Ctrl-C requests Context::interrupt instead of ending the process.
  bool interruptible = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_COMMAND_H_
