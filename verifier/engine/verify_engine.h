#ifndef ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_
#define ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/base/registry.h"
#include "common/model/language_model.h"
#include "common/speculation/endpoints.h"
#include "verifier/engine/engine_options.h"
#include "verifier/engine/feature_collector.h"
#include "verifier/engine/mask_desk.h"
#include "verifier/engine/measuring_passes.h"
#include "verifier/engine/memory_report.h"
#include "verifier/engine/pass_runner.h"
#include "verifier/engine/plan_pass.h"
#include "verifier/engine/room_keeper.h"
#include "verifier/engine/rule_selection.h"
#include "verifier/engine/session.h"
#include "verifier/engine/session_table.h"
#include "verifier/engine/shared_prefixes.h"
#include "verifier/engine/target_pass.h"
#include "verifier/engine/verifier_metrics.h"
#include "verifier/engine/verify_checks.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The local verifier: sessions with their K/V, the target model, the rules.
// Owns all of them and the executor. All state is used, and the model runs, on
// the executor's thread. Any thread may call the endpoint's methods, which only
// post.
//
// A turn is one forward pass shared by the requests that are waiting when it
// starts. It runs trees and chunks of prompts, so that a long prompt does not
// delay the rounds of other sessions (see plan_pass.h). A request waits for
// others only if they are expected soon and sharing a pass is cheaper (see
// pass_company.h). If the model's logits do not depend on which sequences share
// a pass (see its class), neither do the results.
//
// This class is the turn. Its parts, each in a file of its name: the sessions
// (SessionTable) share prefixes (SharedPrefixes) and divide the K/V pool
// (RoomKeeper); a request with a grammar waits for its masks before it is
// admitted (MaskDesk), one rule verifies it (RuleSelection), and its result has
// the features that drafters want (FeatureCollector). PassRunner runs a pass
// and answers the sessions in it; measuring passes keep the pass costs accurate
// (MeasuringPasses).
class VerifyEngine final : public VerifyEndpoint {
 public:
  using Options = EngineOptions;

  // `rules` is only read here, `metrics` must outlive the engine.
  // INVALID_ARGUMENT: an option is out of range. Errors of rule factories.
  static absl::StatusOr<std::unique_ptr<VerifyEngine>> Create(
      const Options& options, std::unique_ptr<LanguageModel> model,
      std::unique_ptr<Executor> executor,
      const Registry<VerificationRule>& rules, prometheus::Registry& metrics);

  // Waits for the running pass; answers all other requests UNAVAILABLE.
  ~VerifyEngine() override;

  // A repeated request replaces the waiting one. Further errors: CANCELLED: the
  // sequence was ended or requested again before the pass; INVALID_ARGUMENT:
  // the round was already answered for another text or tree; DEADLINE_EXCEEDED:
  // `deadline` passed before the pass; INTERNAL: the model failed on this
  // request; UNAVAILABLE: its device is lost.
  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) override;
  void EndSequence(SequenceId sequence) override;

  // Returns the description with the current pass_costs and memory.
  VerifierInfo info() const;

 private:
  VerifyEngine(const Options& options, std::unique_ptr<LanguageModel> model,
               std::unique_ptr<Executor> executor, RuleSelection rules,
               prometheus::Registry& metrics);

  // Everything below runs on the executor.

  // Requests: from their arrival to their place in a session.
  void Admit(std::unique_ptr<Job> job);
  absl::Status CheckAdmission(const Job& job, const Session* session) const;
  absl::StatusOr<Session*> OpenSession(const VerifyRequest& request);
  void ApplyUpdate(const VerifyRequest& request, Session& session);
  void Drop(SequenceId id, const absl::Status& reason);
  void DropIdleSessions();

  // Turns.
  void PostTurn();
  void PostTurnAt(absl::Time when);
  void TakeTurn();
  absl::Duration CompanyWait(absl::Span<Session* const> waiting) const;
  PassLimits LimitsNow() const;

  void GiveUp(const absl::Status& status);

  const Options options_;
  std::unique_ptr<LanguageModel> model_;
  RuleSelection rules_;
  VerifierInfo info_;  // constant after construction, without the published
  VerifyLimits limits_;
  const PassLimits pass_limits_;
  VerifierMetrics metrics_;
  TargetPass target_pass_;
  SessionTable sessions_;
  SharedPrefixes prefixes_;
  FeatureCollector features_;
  RoomKeeper room_;
  MaskDesk masks_;
  MeasuringPasses measuring_;
  MemoryReport memory_;
  PassRunner runner_;
  std::atomic<bool> stopping_ = false;
  absl::Status lost_;  // why the model is of no use any more; OK: it is of use
  bool turn_is_posted_ = false;
  absl::Time turn_at_ = absl::InfiniteFuture();  // posted for later

  std::unique_ptr<Executor>
      executor_;  // last member: destroyed first, its tasks use the others
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_
