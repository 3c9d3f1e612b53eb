#ifndef ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_
#define ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
#include "verifier/costs/cost_upkeep.h"
#include "verifier/engine/feature_cache.h"
#include "verifier/engine/logprob_cache.h"
#include "verifier/engine/pass_company.h"
#include "verifier/engine/plan_pass.h"
#include "verifier/engine/plan_room.h"
#include "verifier/engine/target_pass.h"
#include "verifier/engine/tree_masker.h"
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
// pass_company.h). The same passes compute features for the requests that want
// them. A session keeps the features of its last result for a repeated request;
// after a prompt these are as many as the prompt has tokens. If the model's
// logits do not depend on which sequences share a pass (see its class), neither
// do the results.
//
// A session whose text begins like another one's, of before or now, takes the
// K/V of that beginning from the model's cache, and its features from
// feature_cache.h, where the sequences have the same cache_salt.
//
// No request is refused for lack of K/V room: requests wait for it, and younger
// sessions are preempted for older ones (plan_room.h). A preempted session
// keeps its tokens, from which its K/V is recomputed, so its text does not
// change.
//
// While the engine is idle, and occasionally before a pass, it runs a measuring
// pass for no session, so that the pass costs stay accurate (see
// cost_upkeep.h).
//
// A request with a grammar is admitted when its masks are there
// (tree_masker.h).
//
// Defined in verify_engine.cc (turns and passes), verify_engine_sessions.cc,
// verify_engine_grammars.cc, verify_engine_room.cc, verify_engine_prefix.cc and
// verify_engine_costs.cc.
class VerifyEngine final : public VerifyEndpoint {
 public:
  struct Options {
    ModelIdentity identity;                // vocab_size is taken from the model
    std::vector<TokenId> end_tokens = {};  // that end a text
    uint64_t cpu_group = 0;                // see VerifierInfo
    uint64_t epoch = 0;  // random, sampled by the caller at start
    int64_t max_sessions = 64;
    int64_t max_tree_nodes = 64;  // root excluded; the model may allow less
    // The most rows of a pass for all sessions together; a single tree may
    // exceed it.
    int64_t max_batch_rows = 64;
    // After this long without a request, a session's coordinator is assumed
    // dead.
    absl::Duration session_ttl = absl::Minutes(10);
    PassCosts pass_costs;  // as measured; empty: unknown, none are kept
    bool pass_costs_are_doubtful = false;  // see MeasuredCosts
    // Whether sessions take K/V of equal prefixes from each other, and from
    // earlier ones. Does not change the text.
    bool shares_prefixes = true;
    int64_t max_feature_bytes = int64_t{256} << 20;  // for shared prefixes
    // Null: requests with a grammar are refused. The engine stops it.
    std::shared_ptr<TreeMasker> grammars = nullptr;
    // Share of the rounds with sampled trees, 0 to 1, for which the engine
    // computes what other rules would accept. Does not change the text.
    double compared_rounds = 0;
    // Called once, on the executor, with the reason, when the model's device is
    // lost to this process. From then on every request is UNAVAILABLE.
    std::function<void(const absl::Status&)> on_model_lost = nullptr;
  };

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
  using Rules = std::map<std::string, std::unique_ptr<VerificationRule>>;

  // A place in a queue, lowest first: a time, and a number for equal times. A
  // request of another priority takes the place of one that comes so many
  // seconds later or earlier, so none is overtaken for ever.
  using Place = std::pair<absl::Time, uint64_t>;

  struct Job {  // a request without an answer
    VerifyRequest request;
    absl::Time deadline;
    Done<VerifyResult> done;
    absl::Time waiting_since;
    VerifyTimings timings = {};  // of its turns so far
    std::optional<absl::Time> without_room_since = {};
    int64_t cached_tokens = 0;                // taken from shared prefixes
    Place turn = {};                          // in the queue for passes
    const Rules::value_type* rule = nullptr;  // that is applied
    // Why that is not the requested rule; empty: it is.
    absl::string_view unsupported = {};
    bool compared = false;  // see Options::compared_rounds
    // The tree that is verified, once a request with a grammar has its masks.
    std::optional<MaskedTree> masked = {};
  };
  struct Session {
    Place age;                    // in the queue for room
    absl::Duration delay;         // by its priority
    CacheId cache = 0;            // K/V of all tokens but the last, or fewer
    bool admitted = false;        // to the K/V pool
    std::vector<TokenId> tokens;  // committed
    std::string salt;             // see SequenceUpdate::cache_salt
    bool looked_up = false;       // its prefix was, as the metrics count it
    bool was_preempted = false;   // what it takes again is no hit
    int64_t max_length = 0;       // that `tokens` may reach
    std::unique_ptr<Job> job;     // at most one
    VerifyRequest asked;          // the last admitted request, unchanged
    std::optional<VerifyResult> last_verify_result;
    // `wanted` are those of the last request, `taps` all points that it names.
    // `features` are of the positions cached since the last result, up to the
    // last position cached since then, or not begun.
    FeatureRequest wanted;
    std::vector<int32_t> taps;
    FeatureRows features;
    std::vector<StoredContract> stored;  // since the last result, in the ring
    FeatureRows open_block;  // committed, not a whole block of FeatureCache
    // The log-probabilities of the last request's prompt, as far as its tokens
    // are cached.
    LogprobRows prompt_logprobs;
    // Since the last result. Rows of the prompt are ranked once, those before
    // `ranked_end` were.
    TokenRanks ranks;
    int64_t ranked_end = 1;  // the first token has no other before it
    absl::Time last_used;
    // When the last result was sent, until the next request; InfinitePast:
    // there is none.
    absl::Time answered = absl::InfinitePast();
    int64_t answered_rows = 0;
    ReturnTime return_time;
  };
  struct Member {  // of a pass
    Session* session = nullptr;
    PassShare share;
  };

  // The engine is idle after this long without a request. Longer than the time
  // between two rounds of a session, when drafters work.
  static constexpr absl::Duration kRest = absl::Milliseconds(100);

  VerifyEngine(const Options& options, std::unique_ptr<LanguageModel> model,
               std::unique_ptr<Executor> executor, Rules rules,
               prometheus::Registry& metrics);

  // Everything below runs on the executor.
  void Admit(std::unique_ptr<Job> job);
  // Handles a job that repeats a waiting or an answered request. Returns
  // whether it does.
  bool Repeat(Job& job, Session& session);
  void AskForMasks(std::unique_ptr<Job> job, const Session* session);
  void OnMasks(std::unique_ptr<Job> job, uint64_t ticket,
               absl::StatusOr<MaskedTree> masked);
  absl::Status CheckAdmission(const Job& job, const Session* session) const;
  absl::Status MakeRoom(uint64_t epoch);
  void ChooseRule(Job& job) const;
  void ChooseComparison(Job& job);
  void ApplyUpdate(const VerifyRequest& request, Session& session);
  void WantFeatures(const FeatureRequest& wanted, Session& session);
  bool CollectsFeatures(const Session& session) const;
  FeatureRows TakeFeatures(Session& session) const;
  StoredSegments TakeStored(Session& session) const;
  Place NextPlace(absl::Duration delay);
  void WantPromptLogprobs(const LogprobRequest& wanted, Session& session);
  void PostTurn();
  void PostTurnAt(absl::Time when);
  void TakeTurn();
  void AnswerLate();
  std::vector<Session*> WithRequests() const;
  std::vector<Session*> TakeRoom();
  void AdmitToPool(absl::Span<Session* const> by_age);
  std::vector<RoomClaim> ClaimsOf(absl::Span<Session* const> sessions) const;
  RoomClaim ClaimOf(const Session& session) const;
  int64_t RoomOfOthers(const Session& session) const;
  void CountRoomWaits(absl::Span<Session* const> with_room) const;
  void Preempt(Session& session);
  void Share(Session& session);
  void TakeCachedFeatures(absl::Span<const TokenId> text, Session& session);
  void OfferFeatures(Session& session);
  absl::Time WhenRoomMayCome() const;
  absl::Duration CompanyWait(absl::Span<Session* const> waiting) const;
  PassWork RemainingWork(const Session& session) const;
  TargetPass::Part PartOf(Session& session, const PassShare& share) const;
  void WantRanks(Session& session, TargetPass::Part& part) const;
  void RunPass(absl::Span<const Member> members);
  void ObservePass(const TargetPass::Output& output);
  void PublishCosts();
  struct Measurement {
    absl::Duration time;   // of a pass
    absl::Duration spent;  // on measuring it
  };
  std::optional<absl::Duration> TimePass(int64_t rows);
  std::optional<Measurement> Measure(int64_t rows);
  void MeasureBefore(absl::Span<const TargetPass::Part> parts);
  void PostMeasurement(absl::Duration pause);
  void MeasureAtRest();
  void GiveUp(const absl::Status& status);
  void FinishPart(Session& session, const TargetPass::Output& output,
                  size_t part);
  absl::StatusOr<VerifyResult> DecideRound(Session& session,
                                           const TargetPass::Output& output,
                                           size_t part);
  void CompareRules(const TargetPass::Output& output, size_t part);
  void Answer(Session& session, absl::StatusOr<VerifyResult> verify_result);
  void Drop(SequenceId id, const absl::Status& reason);
  void DropIdleSessions();
  MemoryUse Memory() const;
  void UpdateGauges();

  const Options options_;
  std::unique_ptr<LanguageModel> model_;
  const bool shares_prefixes_;
  const Rules rules_;
  VerifierInfo info_;  // constant after construction, without the published
  VerifyLimits limits_;
  PassLimits pass_limits_;
  VerifierMetrics metrics_;
  TargetPass target_pass_;
  FeatureCache feature_cache_;
  LogprobCache logprob_cache_;  // of prompts, for shared prefixes
  std::atomic<bool> stopping_ = false;
  mutable Mutex published_mutex_;
  PassCosts published_costs_ ABSL_GUARDED_BY(published_mutex_);
  MemoryUse published_memory_ ABSL_GUARDED_BY(published_mutex_);

  absl::flat_hash_map<SequenceId, std::unique_ptr<Session>> sessions_;
  uint64_t next_place_ = 1;
  uint64_t next_masking_ = 1;
  // The latest requests that wait for their masks, before they are admitted.
  absl::flat_hash_map<SequenceId, uint64_t> masking_;
  DeviceMemory device_memory_;  // when it was asked for last
  absl::Status lost_;  // why the model is of no use any more; OK: it is of use
  bool turn_is_posted_ = false;
  absl::Time turn_at_ = absl::InfiniteFuture();       // posted for later
  absl::Time room_was_short_ = absl::InfinitePast();  // when that was logged
  CostUpkeep costs_;
  bool measurement_is_posted_ = false;
  absl::Time last_request_;
  RuleComparison comparison_;
  double comparisons_due_ = 0;

  std::unique_ptr<Executor>
      executor_;  // last member: destroyed first, its tasks use the others
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_VERIFY_ENGINE_H_
