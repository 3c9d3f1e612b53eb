#ifndef ESPALIER_COORDINATOR_CLI_LOAD_RUN_H_
#define ESPALIER_COORDINATOR_CLI_LOAD_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/bench_mode.h"
#include "coordinator/cli/context.h"
#include "coordinator/cli/inference_client.h"
#include "coordinator/cli/load_row.h"
#include "coordinator/cli/prompt_suite.h"

namespace espalier::cli {

struct LoadPlan {
  std::vector<BenchMode> modes;
  std::vector<SuitePrompt> prompts;  // asked in turn; at least one
  double rate = 1;                   // arrivals a second, on average
  int64_t requests = 100;            // of each mode
  int64_t turns = 2;  // the modes alternate, so that drift meets all alike
  uint32_t max_tokens = 128;
  float temperature = 0;
  uint64_t seed = 1;  // of the arrivals and of the first request
  LoadTarget target;
  absl::Duration timeout;  // of one request
};

// Sends requests at random moments (a Poisson process), whether or not those
// before have been answered: what a service meets in the world. Every mode gets
// the same prompts, seeds and moments; a mode's requests end before the next
// mode begins. One row for each mode. Cancelled: Context::interrupt.
absl::StatusOr<std::vector<LoadRow>> RunLoad(const LoadPlan& plan,
                                             InferenceClient& client,
                                             Context& context);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_LOAD_RUN_H_
