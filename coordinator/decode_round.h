#ifndef ESPALIER_COORDINATOR_DECODE_ROUND_H_
#define ESPALIER_COORDINATOR_DECODE_ROUND_H_

#include <cstdint>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/draft_fanout.h"
#include "coordinator/feature_log.h"
#include "coordinator/merge_policy.h"
#include "coordinator/speculation_control.h"
#include "coordinator/speculation_record.h"
#include "coordinator/verifier_link.h"

namespace espalier::coordinator {

// The rounds of one session, one at a time: trees from the drafters, merged
// into one, verified in one pass. Lives on the executor.
class DecodeRound {
 public:
  struct Options {
    const ExecutorScope* scope;  // ends with the session
    std::vector<DrafterPeer*> drafters;
    VerifierLink::Options verifier;
    const MergePolicy* policy;  // null for plain decoding
    DraftBudget budget;         // max_nodes 0: plain decoding
    bool adaptive = false;      // spends less than that where it does not pay
    SpeculationRecord* record;
    bool greedy = true;
    bool reads_laws = false;  // the rule, of drafts
    absl::Duration draft_timeout;
    bool draft_ahead = false;
    TargetShape target;
    int64_t max_feature_bytes = 0;  // that the session keeps
  };
  struct Result {
    Verdict verdict;
    const TokenTree* tree;     // that was verified; valid until the next round
    int64_t budget_nodes = 0;  // that it might have had, root excluded
    std::optional<DegradedReason> degraded;
    absl::Duration draft_wait;
    absl::Duration merge;
    absl::Duration round_trip;  // to the verifier
  };
  using Then = absl::AnyInvocable<void(absl::StatusOr<Result>) &&>;

  explicit DecodeRound(Options options);

  // One round. Borrows the session until `then` has run. Errors are those of
  // VerifierLink::Verify; a drafter's failure is none.
  // REQUIRES: the last round's `then` ran.
  void Run(const Session& session, Then then);

  // Lets every peer that knows the sequence forget it.
  void EndSequence(SequenceId sequence);

  const DraftFanout& drafters() const { return fanout_; }
  // Why the verifier does not answer; OK if nothing is known to be wrong.
  const absl::Status& verifier_trouble() const { return verifier_.trouble(); }

 private:
  void Begin();
  DraftBudget BudgetFor(const Session& session) const;
  DraftBudget ShareOf(DraftBudget budget) const;  // of each drafter
  std::vector<DraftCall> FirstCalls() const;
  // Those that are worth asking on top of the drafts that are there.
  void CallFurther(const Session& session, absl::Time asked,
                   DraftFanout::Drafts drafts);
  TokenTree Merge(TokenId root, std::vector<DraftedTree> trees) const;
  // Of each drafter's tree of the round.
  std::vector<TreeGain> Gains(absl::Span<const TokenId> emitted) const;
  DraftedTree LateTree(int drafter, const DrafterReturn& r) const;
  TreeGain GainOfLate(const DraftedTree& late,
                      absl::Span<const TokenId> emitted) const;
  // merged: as if the tree was the only one of the round.
  double GainAlone(const DraftedTree& tree, const TokenTree& merged,
                   absl::Span<const TokenId> emitted) const;
  void OnDrafts(const Session& session, absl::Time asked,
                DraftFanout::Drafts drafts);
  // From what has been emitted behind the last round's root.
  void Learn(const Session& session);
  void Verify(const Session& session);
  void DraftAhead(const Session& session);
  void OnVerified(const Session& session,
                  absl::StatusOr<VerifierLink::Verified> verified);

  const Options options_;
  FeatureLog features_;
  DraftFanout fanout_;
  VerifierLink verifier_;
  SessionCalibration calibration_;
  // Set if adaptive, once the session runs.
  std::optional<SpeculationControl> control_;
  PassCosts pass_costs_;
  uint64_t verifier_site_ = 0;
  absl::Duration last_round_trip_;

  // Of the round in progress, or the last one.
  uint64_t round_ = 0;
  absl::Time started_;
  int64_t committed_length_ = 0;
  DraftBudget budget_;
  std::vector<DraftedTree> trees_;
  TokenTree tree_;
  Result result_;
  Then then_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DECODE_ROUND_H_
