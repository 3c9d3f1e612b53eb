#ifndef ESPALIER_VERIFIER_VERIFY_ENGINE_H_
#define ESPALIER_VERIFIER_VERIFY_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/registry.h"
#include "common/model/language_model.h"
#include "common/spec/endpoints.h"
#include "verifier/tree_pass.h"
#include "verifier/verification_rule.h"
#include "verifier/verifier_metrics.h"
#include "verifier/verify_checks.h"

namespace espalier::verifier {

// The local verifier: sessions with their K/V, the target model, the rules.
// Owns all of them and the executor, on whose thread all state lives; any
// thread may call the endpoint's methods.
//
// Requests are served in turns of one pass each, a chunk of a prompt or a tree,
// so a long prompt does not hold up the rounds of other sessions.
class VerifyEngine final : public VerifyEndpoint {
 public:
  struct Options {
    ModelIdentity identity;  // vocab_size is taken from the model
    uint64_t epoch = 0;      // random, drawn by the caller at start
    int64_t max_sessions = 64;
    int64_t max_tree_nodes = 64;  // root excluded; the model may allow less
    int64_t prefill_chunk = 128;  // tokens per pass; the model may allow less
    // After so long without a request its coordinator is taken for dead.
    absl::Duration session_ttl = absl::Minutes(10);
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

  const VerifierInfo& info() const { return info_; }

 private:
  using Rules = std::map<std::string, std::unique_ptr<VerificationRule>>;

  struct Job {  // a request without an answer
    VerifyRequest request;
    absl::Time deadline;
    Done<Verdict> done;
    absl::Time waiting_since;
    VerifyTimings timings;  // of the turns it had
    uint64_t ticket = 0;    // of its next turn
  };
  struct Session {
    CacheId cache = 0;            // K/V of tokens but the last, or fewer
    std::vector<TokenId> tokens;  // committed
    std::unique_ptr<Job> job;     // at most one
    std::optional<Verdict> last_verdict;
    absl::Time last_used;
  };

  VerifyEngine(const Options& options, std::unique_ptr<LanguageModel> model,
               std::unique_ptr<Executor> executor, Rules rules,
               prometheus::Registry& metrics);

  // Everything below runs on the executor.
  void Admit(std::unique_ptr<Job> job);
  absl::Status CheckAdmission(const Job& job, const Session* session) const;
  void ApplyUpdate(const VerifyRequest& request, Session& session);
  void PostTurn(SequenceId id, Job& job);
  void TakeTurn(SequenceId id, uint64_t ticket);
  absl::Status PrefillChunk(Session& session);
  absl::StatusOr<Verdict> RunRound(Session& session);
  void Answer(Session& session, absl::StatusOr<Verdict> verdict);
  void Drop(SequenceId id, const absl::Status& reason);
  void DropIdleSessions();
  void UpdateGauges();

  const Options options_;
  std::unique_ptr<LanguageModel> model_;
  const Rules rules_;
  VerifierInfo info_;  // constant after construction
  VerifyLimits limits_;
  VerifierMetrics metrics_;
  TreePass tree_pass_;
  std::atomic<bool> stopping_ = false;

  absl::flat_hash_map<SequenceId, std::unique_ptr<Session>> sessions_;
  uint64_t next_ticket_ = 1;

  std::unique_ptr<Executor> executor_;  // last: dies first, its tasks use all
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFY_ENGINE_H_
