#include "coordinator/cli/engine_sibling.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/interrupt_watcher.h"

namespace espalier::cli {

absl::Status EngineSibling::Exec() const {
  std::string name = binary_.string();
  std::vector<std::string> args = args_;
  std::vector<char*> argv = {name.data()};
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  UnblockInterrupts();
  execv(name.c_str(), argv.data());
  const int error = errno;
  return absl::FailedPreconditionError(absl::StrCat(
      "this needs ", name, ", which has the engine: ", std::strerror(error),
      ". Build with -DESPALIER_TORCH=ON"));
}

LocalClusterFactory EngineSibling::AsLocalClusterFactory() const {
  return [self = *this](
             const LocalClusterOptions&,
             const Places&) -> absl::StatusOr<std::unique_ptr<LocalCluster>> {
    return self.Exec();
  };
}

Command EngineSibling::AsCommand(std::string name, std::string summary) const {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .run = [self = *this](Context&, Args) { return self.Exec(); }};
}

}  // namespace espalier::cli
