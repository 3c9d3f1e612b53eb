#ifndef ESPALIER_VERIFIER_ENGINE_PASS_RUNNER_H_
#define ESPALIER_VERIFIER_ENGINE_PASS_RUNNER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "common/speculation/messages.h"
#include "verifier/engine/feature_collector.h"
#include "verifier/engine/measuring_passes.h"
#include "verifier/engine/memory_report.h"
#include "verifier/engine/plan_pass.h"
#include "verifier/engine/session.h"
#include "verifier/engine/session_table.h"
#include "verifier/engine/shared_prefixes.h"
#include "verifier/engine/target_pass.h"
#include "verifier/engine/verifier_metrics.h"
#include "verifier/flow/rule_comparison.h"

namespace espalier::verifier {

// A session's share of a pass.
struct PassMember {
  Session* session = nullptr;
  PassShare share;
};

// Runs a pass for the sessions of a turn, and answers those whose round it
// decides. Used on the engine's executor.
class PassRunner {
 public:
  // Names what it works on; all must outlive this object.
  struct Parts {
    LanguageModel& model;
    const Executor& clock;
    TargetPass& target_pass;
    SessionTable& sessions;
    SharedPrefixes& prefixes;
    const FeatureCollector& features;
    MeasuringPasses& measuring;
    const MemoryReport& memory;
    VerifierMetrics& metrics;
  };
  explicit PassRunner(const Parts& parts) : parts_(parts) {}

  // Runs the pass, after a measuring pass if one is due. After a failure each
  // member runs alone, so that only the one that caused it fails; it is
  // answered with the error. UNAVAILABLE: the model's device is lost; members
  // may be without an answer.
  absl::Status Run(absl::Span<const PassMember> members);

 private:
  absl::Status RunEach(absl::Span<const PassMember> members);
  // Commits the results of the pass for one session. Errors as of Run.
  absl::Status Finish(Session& session, const TargetPass::Output& output,
                      size_t part);
  absl::Status FinishPrompt(Session& session, const TargetPass::Output& output,
                            size_t part);
  absl::StatusOr<VerifyResult> DecideRound(Session& session,
                                           const TargetPass::Output& output,
                                           size_t part);

  const Parts parts_;
  RuleComparison comparison_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_PASS_RUNNER_H_
