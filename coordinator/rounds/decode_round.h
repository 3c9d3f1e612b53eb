#ifndef ESPALIER_COORDINATOR_ROUNDS_DECODE_ROUND_H_
#define ESPALIER_COORDINATOR_ROUNDS_DECODE_ROUND_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/control/speculation_control.h"
#include "coordinator/merge/merge_policy.h"
#include "coordinator/peers/draft_fanout.h"
#include "coordinator/peers/feature_log.h"
#include "coordinator/peers/verifier_link.h"
#include "coordinator/rounds/environment.h"

namespace espalier::coordinator {

// The rounds of one session, one at a time: drafters propose trees, these are
// merged into one, and the verifier checks it in one pass. Lives on the
// executor.
class DecodeRound {
 public:
  struct Result {
    VerifyResult verify_result;
    const TokenTree* tree;  // as verified; valid until the next round
    int64_t max_nodes = 0;  // budget of the tree, root excluded
    bool rested = false;    // no drafter was asked, as none would have paid
    std::optional<DegradedReason> degraded;
    absl::Duration draft_wait;
    absl::Duration merge;
    absl::Duration round_trip;  // to the verifier
  };
  using Then = absl::AnyInvocable<void(absl::StatusOr<Result>) &&>;

  // Borrows all; `scope` ends with the session.
  DecodeRound(const Environment* environment, const ExecutorScope* scope,
              const OutputPlan* output);

  // Runs one round. Borrows the session until `then` has run. Errors are those
  // of VerifierLink::Verify; a drafter's failure is not an error. REQUIRES:
  // `then` of the last round ran.
  void Run(const Session& session, Then then);

  // Tells every peer that knows the sequence to forget it. `session`: as the
  // last round left it.
  void End(const Session& session);

  // Time that speculation has won of the session, compared with plain decoding,
  // by the drafters that were asked (bit i: drafters().drafter(i)); below 0:
  // lost. Complete after End. Empty unless adaptive.
  const std::map<uint64_t, absl::Duration>& balance() const { return balance_; }
  // Returns what a round of plain decoding takes; zero: not known.
  absl::Duration PlainRound() const;

  const DraftFanout& drafters() const { return fanout_; }
  // Why the verifier does not answer; OK if no problem is known.
  const absl::Status& verifier_trouble() const { return verifier_.trouble(); }
  // How long the verifier has not answered this round.
  absl::Duration verifier_silence() const { return verifier_.silence(); }

 private:
  void Begin();
  // Returns true if the round that begins is one of plain decoding.
  bool Rests();
  DraftBudget BudgetFor(const Session& session) const;
  DraftBudget ShareOf(DraftBudget budget) const;  // for each drafter
  std::vector<DraftCall> FirstCalls() const;
  // Asks the drafters that are worth asking, given the trees that are there.
  void CallFurther(const Session& session, absl::Time asked,
                   DraftFanout::Drafts drafts);
  // Merge input of this round with the given trees.
  MergeInput InputOf(absl::Span<const DraftedTree> trees) const;
  // Sets the gain of the round's trees and of late trees; late trees are added
  // to `seen`.
  void AssignCredit(absl::Span<const TokenId> emitted,
                    std::vector<DrafterReturn>& returns,
                    std::vector<DraftedTree>& seen) const;
  void OnDrafts(const Session& session, absl::Time asked,
                DraftFanout::Drafts drafts);
  // Time of a round in which no pass for its tree ran or could run: the
  // verifier was away, had no K/V room, or computed lost K/V again.
  static absl::Duration HeldUp(const VerifierLink::Verified& verified);
  // Learns from the tokens emitted after the last round's root.
  void Learn(const Session& session);
  void LearnFrom(absl::Span<const TokenId> emitted,
                 absl::Span<const DrafterReturn> returns);
  void Verify(const Session& session);
  void DraftLookahead(const Session& session);
  void OnVerified(const Session& session,
                  absl::StatusOr<VerifierLink::Verified> verified);

  const Environment& environment_;
  const ExecutorScope& scope_;
  const OutputPlan& output_;
  const RequestPlan& plan_;  // the output's
  const bool greedy_;
  FeatureLog features_;
  DraftFanout fanout_;
  VerifierLink verifier_;
  SessionCalibration calibration_;
  // Set if adaptive, once the session runs.
  std::optional<SpeculationControl> control_;
  PassCosts pass_costs_;
  uint64_t verifier_cpu_group_ = 0;
  absl::Duration last_round_trip_;
  absl::Duration held_up_;     // the last round, by what no later round repeats
  absl::Duration draft_wait_;  // in the last round that drafted
  absl::Duration handling_;    // of its trees, by this thread
  absl::Duration pass_;        // in the last round
  std::map<uint64_t, absl::Duration> balance_;

  // State of the round in progress, or of the last one.
  uint64_t round_ = 0;
  absl::Time started_;
  int64_t committed_length_ = 0;
  TokenId root_ = 0;
  DraftBudget budget_;
  bool rests_ = false;     // no drafter is asked
  bool verified_ = false;  // it has ended, and nothing was learned from it yet
  std::vector<DraftedTree> trees_;
  TokenTree merged_;  // from trees_
  TokenTree tree_;    // the part of merged_ that is verified
  Result result_;
  Then then_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_DECODE_ROUND_H_
