#ifndef ESPALIER_COORDINATOR_ROUNDS_GENERATION_RECORDER_H_
#define ESPALIER_COORDINATOR_ROUNDS_GENERATION_RECORDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/rounds/decode_round.h"
#include "coordinator/session/request.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

// Counts the steps of a request for its report and for the metrics, so that
// both always agree. Lives on the executor.
class GenerationRecorder {
 public:
  struct Options {
    CoordinatorMetrics* metrics;
    absl::Time arrival;
    int64_t num_prompt_tokens = 0;
    int64_t num_resumed_tokens = 0;  // output of earlier calls
    std::string strategy;
    std::string rule;  // as asked for
    // Why another rule may be applied; empty: no known reason.
    std::string rule_obstacle;
    std::vector<std::string> warnings;  // for the report
  };
  explicit GenerationRecorder(Options options);

  // The request leaves the queue. REQUIRES: called once at most.
  void Start(absl::Time now, const DraftFanout& drafters);

  // Records a step when its tokens are committed and before they are delivered.
  // Returns the sink's information about the step.
  StepInfo Commit(const DecodeRound::Result& result,
                  const Session::Committed& committed,
                  const DraftFanout& drafters);
  struct StepTimes {
    absl::Time verified;
    absl::Time committed = {};
    absl::Time emitted = {};
  };
  void Emit(const StepTimes& times, int64_t num_tokens);

  // How the output ends, if its last tokens come without a step.
  void EndsWith(const Session::Committed& committed);

  // Returns the prompt's cached tokens, known after the first Commit.
  int64_t cached_tokens() const { return report_.usage.cached_tokens; }

  // `round` has ended. REQUIRES: called once.
  const GenerationReport& Finish(absl::Time now, const absl::Status& status,
                                 FinishReason reason, const DecodeRound& round);

 private:
  void CountStep(const DecodeRound::Result& result, int64_t num_accepted,
                 int64_t num_kept);
  void CountDrafters(const DecodeRound::Result& result, int64_t num_accepted,
                     const DraftFanout& drafters);
  void CountTimes(const DecodeRound::Result& result);
  void CountBalance(const DecodeRound& round);

  void WarnOfOtherRule();

  CoordinatorMetrics& metrics_;
  const absl::Time arrival_;
  const int64_t num_resumed_tokens_;
  const std::string wanted_rule_;
  const std::string rule_obstacle_;
  int64_t num_trees_ = 0;        // steps with more than a root
  int64_t num_other_rules_ = 0;  // of num_trees_: verified by another rule
  const SpecMetrics* spec_metrics_ = nullptr;  // of strategy and applied rule
  GenerationReport report_;
  bool started_ = false;
  std::optional<absl::Time> first_emit_;
  absl::Time last_emit_;
  int64_t num_first_tokens_ = 0;  // emitted by the first step
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_GENERATION_RECORDER_H_
