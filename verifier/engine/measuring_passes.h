#ifndef ESPALIER_VERIFIER_ENGINE_MEASURING_PASSES_H_
#define ESPALIER_VERIFIER_ENGINE_MEASURING_PASSES_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/model/language_model.h"
#include "common/speculation/pass_cost.h"
#include "verifier/costs/cost_upkeep.h"
#include "verifier/costs/tree_routing.h"
#include "verifier/engine/target_pass.h"
#include "verifier/engine/verifier_metrics.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// Keeps the engine's pass costs accurate: from the passes that it runs, and by
// measuring passes for no session, while it is idle and occasionally before a
// pass (cost_upkeep.h). Used on the engine's executor, but for Stop() and
// published().
class MeasuringPasses {
 public:
  // Names what it works on; all must outlive this object. `rule` verifies the
  // trees of measuring passes.
  struct Parts {
    LanguageModel& model;
    TargetPass& target_pass;
    Executor& executor;
    VerificationRule& rule;
    VerifierMetrics& metrics;
  };
  // on_lost: called with an UNAVAILABLE status if a measuring pass at rest
  // finds the model's device lost.
  // routing: how alike the rows of trees are; measuring passes are as alike.
  MeasuringPasses(const Parts& parts, CostUpkeep costs, TreeRouting routing,
                  absl::AnyInvocable<void(const absl::Status&)> on_lost);

  const PassCosts& costs() const { return costs_.points(); }
  PassCosts published() const;  // thread-safe

  // Learns from a pass of sessions.
  void Observe(const TargetPass::Output& output);

  // Measures before a pass with these parts, if that is due, and returns the
  // time that it took. Runs seldom, as the sessions of the pass wait for it.
  // UNAVAILABLE: the model's device is lost; other failures are not the
  // sessions'.
  absl::StatusOr<absl::Duration> Before(
      absl::Span<const TargetPass::Part> parts);

  // A request has come: measures when none has come for a while, if a row count
  // is uncertain.
  void OnRequest();
  // Measures no more. Thread-safe.
  void Stop() { stopped_ = true; }

 private:
  struct Measurement {
    absl::Duration time;   // of a pass
    absl::Duration spent;  // on measuring it
  };
  absl::StatusOr<absl::Duration> TimePass(int64_t rows);
  absl::StatusOr<Measurement> Measure(int64_t rows);
  void PostMeasurement(absl::Duration pause);
  void MeasureAtRest();
  void Publish();

  const Parts parts_;
  CostUpkeep costs_;
  TreeRouting routing_;
  absl::AnyInvocable<void(const absl::Status&)> on_lost_;
  std::atomic<bool> stopped_ = false;
  bool is_posted_ = false;
  absl::Time last_request_ = absl::InfinitePast();
  mutable Mutex mutex_;
  PassCosts published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_MEASURING_PASSES_H_
