#ifndef ESPALIER_COORDINATOR_CLI_BENCH_SUITE_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_SUITE_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/bench/prompt_suite.h"
#include "coordinator/cli/context.h"

namespace espalier::cli {

// The flags that select prompts, for commands that send many requests.
class SuiteFlags {
 public:
  void AddTo(FlagSet& flags);

  // At least one. Errors name the file, the line and the field.
  absl::StatusOr<std::vector<PromptSuite>> Load(Context& context) const;

 private:
  std::vector<std::string> suites_ = {"chat", "math", "code", "summarise"};
  std::optional<std::string> prompts_file_;
  std::optional<std::string> suite_dir_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_SUITE_FLAGS_H_
