#ifndef ESPALIER_COORDINATOR_CLI_BENCH_BENCH_RUN_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_BENCH_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cli/answer.h"
#include "coordinator/cli/bench/bench_mode.h"
#include "coordinator/cli/bench/bench_row.h"
#include "coordinator/cli/bench/prompt_suite.h"
#include "coordinator/cli/context.h"
#include "coordinator/cli/inference_client.h"

namespace espalier::cli {

struct BenchPlan {
  std::vector<BenchMode> modes = {};
  std::vector<float> temperatures = {0};
  std::optional<uint32_t> nodes = {};
  uint32_t max_tokens = 128;
  size_t limit = SIZE_MAX;  // prompts per suite
  uint64_t seed = 1;  // of the first prompt; one more for each further prompt
  absl::Duration timeout = absl::Minutes(10);  // of one answer
};

// Runs suites in all modes. The modes alternate prompt by prompt, and each
// prompt begins with the next mode, so that a slower machine or a warmer cache
// affects all modes alike. One thread.
class BenchRun {
 public:
  // Borrows all three.
  BenchRun(const BenchPlan& plan, InferenceClient& client, Context& context)
      : plan_(plan), client_(client), context_(context) {}

  // One row for each temperature and mode, in the plan's order. Reports on
  // context.err where a mode's text differs from plain's.
  absl::StatusOr<std::vector<BenchRow>> Run(const PromptSuite& suite);

  // Returns rows over all suites that were run.
  std::vector<BenchRow> RowsOfAll() const { return Rows("all", totals_); }

 private:
  using Tallies = std::vector<std::vector<BenchTally>>;  // [temperature][mode]

  std::vector<BenchRow> Rows(const std::string& suite,
                             const Tallies& tallies) const;
  // Every mode's answer to a prompt, in the plan's order.
  absl::StatusOr<std::vector<Answer>> AskAll(const SuitePrompt& prompt,
                                             float temperature, uint64_t seed);
  void ReportMismatches(const SuitePrompt& prompt, float temperature,
                        const std::vector<Answer>& answers);
  void ReportProgress(const PromptSuite& suite, size_t done, size_t of);
  std::optional<uint32_t> NodesOf(const BenchMode& mode) const;
  std::optional<size_t> PlainIndex() const;

  const BenchPlan& plan_;
  InferenceClient& client_;
  Context& context_;
  Tallies totals_;         // of all suites; empty: none yet
  size_t first_mode_ = 0;  // the mode that begins the next prompt
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_BENCH_RUN_H_
