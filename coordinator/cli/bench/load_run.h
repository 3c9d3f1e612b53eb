#ifndef ESPALIER_COORDINATOR_CLI_BENCH_LOAD_RUN_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_LOAD_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/bench/bench_mode.h"
#include "coordinator/cli/bench/load_row.h"
#include "coordinator/cli/bench/prompt_suite.h"
#include "coordinator/cli/context.h"
#include "coordinator/cli/inference_client.h"

namespace espalier::cli {

struct LoadPlan {
  std::vector<BenchMode> modes = {};
  std::vector<SuitePrompt> prompts = {};  // asked in turn; at least one
  float rate = 1;                         // arrivals per second, on average
  // If above 0, a closed loop instead: this number of requests is always in
  // flight.
  uint32_t concurrency = 0;
  uint32_t requests = 20;  // per mode
  uint32_t turns = 2;  // the modes alternate, so that drift affects all alike
  uint32_t max_tokens = 128;
  float temperature = 0;
  uint64_t seed = 1;  // of the arrivals and of the first request
  LoadTarget target = {.first_token = absl::Seconds(2),
                       .per_token = absl::Milliseconds(100)};
  absl::Duration timeout = absl::Minutes(10);  // of one request
};

// Gets one answer, over gRPC or HTTP. Called on many threads.
using Generate = std::function<absl::StatusOr<Answer>(
    const v1::GenerateRequest& request, const CallOptions& options,
    InferenceClient::OnText on_text)>;

// Sends requests at random times (a Poisson process), whether or not earlier
// ones have been answered, as in production; or, as a closed loop, each when an
// earlier one is answered. Every mode gets the same prompts, seeds and times. A
// mode's requests end before the next mode begins; this is reported on standard
// error. One row per mode. Cancelled by Context::interrupt.
absl::StatusOr<std::vector<LoadRow>> RunLoad(const LoadPlan& plan,
                                             const Generate& generate,
                                             Context& context);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_LOAD_RUN_H_
