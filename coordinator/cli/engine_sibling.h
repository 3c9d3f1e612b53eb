#ifndef ESPALIER_COORDINATOR_CLI_ENGINE_SIBLING_H_
#define ESPALIER_COORDINATOR_CLI_ENGINE_SIBLING_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/local_cluster.h"

namespace espalier::cli {

// `espalier` itself links no libtorch, so that it runs (and starts quickly)
// without it. Commands that need a model in the process are run by
// espalier-local, the binary beside it with the same commands and an engine.
class EngineSibling {
 public:
  // `args` are those of this process, without the program's name.
  EngineSibling(const std::filesystem::path& folder,
                std::vector<std::string> args)
      : binary_(folder / "espalier-local"), args_(std::move(args)) {}

  // Replaces this process with the sibling. Returns only on failure.
  absl::Status Exec() const;

  // For --local: never returns a cluster; the process becomes the sibling,
  // which has one.
  LocalClusterFactory AsLocalClusterFactory() const;
  // A command that only the sibling has.
  Command AsCommand(std::string name, std::string summary) const;

 private:
  std::filesystem::path binary_;
  std::vector<std::string> args_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_ENGINE_SIBLING_H_
