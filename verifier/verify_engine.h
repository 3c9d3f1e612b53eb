#ifndef ESPALIER_VERIFIER_VERIFY_ENGINE_H_
#define ESPALIER_VERIFIER_VERIFY_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/registry.h"
#include "common/model/language_model.h"
#include "common/spec/endpoints.h"
#include "verifier/cost_table.h"
#include "verifier/plan_pass.h"
#include "verifier/target_pass.h"
#include "verifier/verification_rule.h"
#include "verifier/verifier_metrics.h"
#include "verifier/verify_checks.h"

namespace espalier::verifier {

// The local verifier: sessions with their K/V, the target model, the rules.
// Owns all of them and the executor, on whose thread all state lives and the
// model runs; any thread may call the endpoint's methods, which only post.
//
// A turn is one forward pass that all requests share that wait when the engine
// gets to it: trees, and chunks of prompts, so that a long prompt does not hold
// up the rounds of other sessions (see plan_pass.h). A request waits for no
// company. Features are taken along in the same passes, for the requests that
// want them; a session holds those of its last verdict, for a repeated request,
// so after a prompt as many as the prompt has tokens. Where the model's bits do
// not depend on who shares a pass (see its class), neither do the verdicts.
class VerifyEngine final : public VerifyEndpoint {
 public:
  struct Options {
    ModelIdentity identity;  // vocab_size is taken from the model
    uint64_t site = 0;       // see VerifierInfo
    uint64_t epoch = 0;      // random, drawn by the caller at start
    int64_t max_sessions = 64;
    int64_t max_tree_nodes = 64;  // root excluded; the model may allow less
    // Of all sessions in one pass; a single tree may exceed it.
    int64_t max_batch_rows = 64;
    // After so long without a request its coordinator is taken for dead.
    absl::Duration session_ttl = absl::Minutes(10);
    PassCosts pass_costs;  // as measured; empty: unknown, none are kept
    // Share of the rounds with drawn trees, 0 to 1, in which it is worked out
    // what other rules would accept. Changes no text.
    double compared_rounds = 0;
  };

  // `rules` is only read here, `metrics` must outlive the engine.
  // INVALID_ARGUMENT: an option is out of range. Errors of rule factories.
  static absl::StatusOr<std::unique_ptr<VerifyEngine>> Create(
      const Options& options, std::unique_ptr<LanguageModel> model,
      std::unique_ptr<Executor> executor,
      const Registry<VerificationRule>& rules, prometheus::Registry& metrics);

  // Waits for the pass that runs; answers all other requests UNAVAILABLE.
  ~VerifyEngine() override;

  // Further errors: CANCELLED: the sequence was ended, or the same sequence was
  // asked for again, before the pass; DEADLINE_EXCEEDED: so was `deadline`
  // reached; INTERNAL: the model failed, this request only.
  void Verify(VerifyRequest request, absl::Time deadline,
              Done<Verdict> done) override;
  void EndSequence(SequenceId sequence) override;

  // With pass_costs as of now.
  VerifierInfo info() const;

 private:
  using Rules = std::map<std::string, std::unique_ptr<VerificationRule>>;

  struct Job {  // a request without an answer
    VerifyRequest request;
    absl::Time deadline;
    Done<Verdict> done;
    absl::Time waiting_since;
    VerifyTimings timings;  // of the turns it had
    uint64_t ticket = 0;    // its place in the queue: lowest first
    const Rules::value_type* rule = nullptr;  // that is applied
    // Why that is not the rule that was asked for; empty: it is.
    absl::string_view refusal;
    bool compared = false;  // see Options::compared_rounds
  };
  struct Session {
    CacheId cache = 0;            // K/V of tokens but the last, or fewer
    std::vector<TokenId> tokens;  // committed
    std::unique_ptr<Job> job;     // at most one
    std::optional<Verdict> last_verdict;
    // Wanted by the last request, and what was cached since the last verdict:
    // up to the end of what is cached, or not begun.
    std::vector<int32_t> taps;
    FeatureRows features;
    absl::Time last_used;
  };
  struct Member {  // of a pass
    Session* session = nullptr;
    PassShare share;
  };

  VerifyEngine(const Options& options, std::unique_ptr<LanguageModel> model,
               std::unique_ptr<Executor> executor, Rules rules,
               prometheus::Registry& metrics);

  // Everything below runs on the executor.
  void Admit(std::unique_ptr<Job> job);
  absl::Status CheckAdmission(const Job& job, const Session* session) const;
  void ChooseRule(Job& job) const;
  void ChooseComparison(Job& job);
  void ApplyUpdate(const VerifyRequest& request, Session& session);
  void WantFeatures(const FeatureRequest& wanted, Session& session);
  void PostTurn();
  void TakeTurn();
  std::vector<Session*> TakeWaiting();
  PassWork RemainingWork(const Session& session) const;
  TargetPass::Part PartOf(Session& session, const PassShare& share) const;
  void RunPass(absl::Span<const Member> members);
  void ObservePass(const TargetPass::Output& output);
  void FinishPart(Session& session, const TargetPass::Output& output,
                  size_t part);
  absl::StatusOr<Verdict> DecideRound(Session& session,
                                      const TargetPass::Output& output,
                                      size_t part);
  void CompareRules(const TargetPass::Output& output, size_t part);
  void Answer(Session& session, absl::StatusOr<Verdict> verdict);
  void Drop(SequenceId id, const absl::Status& reason);
  void DropIdleSessions();
  void UpdateGauges();

  const Options options_;
  std::unique_ptr<LanguageModel> model_;
  const Rules rules_;
  VerifierInfo info_;  // constant after construction, without pass_costs
  VerifyLimits limits_;
  PassLimits pass_limits_;
  VerifierMetrics metrics_;
  TargetPass target_pass_;
  std::atomic<bool> stopping_ = false;
  mutable Mutex published_mutex_;
  PassCosts published_costs_ ABSL_GUARDED_BY(published_mutex_);

  absl::flat_hash_map<SequenceId, std::unique_ptr<Session>> sessions_;
  uint64_t next_ticket_ = 1;
  bool turn_is_posted_ = false;
  CostTable costs_;
  RuleComparison comparison_;
  double comparisons_due_ = 0;

  std::unique_ptr<Executor> executor_;  // last: dies first, its tasks use all
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFY_ENGINE_H_
