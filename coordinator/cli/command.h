#ifndef ESPALIER_COORDINATOR_CLI_COMMAND_H_
#define ESPALIER_COORDINATOR_CLI_COMMAND_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/cli/context.h"

namespace espalier::cli {

using Args = absl::Span<const std::string>;  // after the command's name

// One command of `espalier`.
struct Command {
  std::string name;     // one word, or two: "bench forward"
  std::string summary;  // one line of `espalier help`
  // INVALID_ARGUMENT and NOT_FOUND mean bad user input (exit code 2).
  std::function<absl::Status(Context&, Args)> run;
  // If true, Ctrl-C requests Context::interrupt instead of ending the process.
  bool interruptible = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_COMMAND_H_
