#ifndef ESPALIER_COORDINATOR_DRAFT_FANOUT_H_
#define ESPALIER_COORDINATOR_DRAFT_FANOUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "common/spec/endpoints.h"
#include "coordinator/draft_call.h"
#include "coordinator/drafter_duty.h"
#include "coordinator/drafter_health.h"
#include "coordinator/drafter_link.h"
#include "coordinator/executor_scope.h"
#include "coordinator/feature_log.h"
#include "coordinator/merge_policy.h"
#include "coordinator/session.h"
#include "coordinator/tree_judge.h"

namespace espalier::coordinator {

// One drafter as all sessions share it. Owned by the Coordinator.
struct DrafterPeer {
  std::string name;
  DraftEndpoint* endpoint;
  int index;  // among all of the coordinator
  // What it says of itself; nullopt: not known yet. Called on the executor.
  std::function<std::optional<DrafterInfo>()> info;
  const DrafterMetrics* metrics;
  DrafterHealth health;
  DrafterDuty duty = {};
  bool trusted = false;  // that its laws are what it drew from
};

// Asks the drafters of one session for trees and collects those that come in
// time. Whatever a drafter does or fails to do, a round waits for the deadline
// at most and goes on with what has come: a whole tree, a part of it, nothing.
// Lives on the executor.
class DraftFanout {
 public:
  struct Drafts {
    // By drafter, which is its index in the session. Valid until the next
    // Collect.
    std::vector<DraftedTree> trees;
    // Why there is none; unset where a drafter had nothing to propose.
    std::optional<DegradedReason> degraded;
  };
  using Then = absl::AnyInvocable<void(Drafts) &&>;

  // Borrows all; `scope` ends with the session, `features` are the session's.
  DraftFanout(const ExecutorScope* scope, std::vector<DrafterPeer*> drafters,
              int64_t vocab_size, FeatureLog* features);

  // calls: by drafter. Runs `then` once, possibly before it returns, and at the
  // deadline at the latest. REQUIRES: the last one ran.
  void Collect(const Session& session, uint64_t round, DraftBudget budget,
               absl::Span<const DraftCall> calls, absl::Time deadline,
               Then then);
  // For the same round, from drafters that had nothing to do in it so far;
  // `then` gets what has come from all. REQUIRES: the last `then` ran.
  void CollectMore(const Session& session, DraftBudget budget,
                   absl::Span<const DraftCall> calls, Then then);

  // What a verification that is on its way may leave time for.
  struct Spare {
    absl::Duration time;
    uint64_t site;  // of the verifier, which computes meanwhile; 0: its own
  };
  // Lets drafters work on the round that follows this one, as if `tree`'s
  // verification ended at its likeliest leaf, then at the next, as long as
  // there is time: those that can, were awaited for this round, and do not take
  // the verifier's cores. The next Collect uses what comes true.
  void DraftAhead(const Session& session, const TokenTree& tree,
                  DraftBudget budget, const Spare& spare);

  // By drafter, of the last Collect, held against what has been emitted since,
  // which is also counted. Once after each Collect.
  std::vector<DrafterReturn> Returns(const Session& session);

  // Lets the drafters that know the sequence forget it.
  void EndSequence(SequenceId sequence);

  struct Troubles {
    int64_t timeouts = 0;
    int64_t errors = 0;
  };
  int num_drafters() const { return static_cast<int>(branches_.size()); }
  const DrafterPeer& drafter(int index) const { return *branches_[index].peer; }
  const Troubles& troubles(int index) const {
    return branches_[index].troubles;
  }

 private:
  struct Branch {
    DrafterPeer* peer;
    DrafterLink link;
    TreeJudge judge;
    bool awaited = false;  // the round stands still for it
    absl::Duration patience;
    absl::Time sent;
    absl::Time deadline;
    uint64_t site = 0;
    // Since the last Collect.
    DraftCall::Attention attention = DraftCall::Attention::kNone;
    bool foreseen = false;  // its tree was there before the round
    bool used = false;      // its tree went into the merge
    // From `sent` to the answer or to giving up; zero for a tree drafted ahead.
    std::optional<absl::Duration> waited;
    bool in_vain = false;  // `waited` ended without an answer
    absl::Duration compute;
    absl::Duration last_wait;  // for a tree that was asked for in its round
    size_t num_guesses = 0;    // of guesses_ that it was asked to draft for
    Troubles troubles;
  };

  void Call(int index, const Session& session, DraftBudget budget,
            const DraftCall& call);
  void Ask(int index, const Session& session, DraftBudget budget,
           const DraftCall& call);
  bool TakeForeseen(Branch& branch, const Session& session);
  bool CanDraftAhead(const Branch& branch, uint64_t verifier_site) const;
  void AskAhead(int index, const Session& session);
  static FeatureContract WantedBy(const Branch& branch);
  FeatureRows NewFeatures(Branch& branch);
  void OnPartial(int index, uint64_t round, Proposal proposal);
  void OnReply(int index, uint64_t ticket, absl::StatusOr<Proposal> reply);
  void OnAhead(int index, const Session& session, uint64_t ticket,
               absl::StatusOr<Proposal> reply);
  DraftOutcome Classify(const DrafterLink::Answer& answer) const;
  static void DropUntrustedLaws(const DrafterPeer& peer, Proposal& proposal);
  void StopWaiting(Branch& branch);
  void WaitFurther();
  void OnDeadline();
  void Finish();
  // What it has proposed in this round; null: nothing.
  const TokenTree* TreeOf(const Branch& branch) const;
  std::optional<DegradedReason> WhyDegraded() const;

  const ExecutorScope& scope_;
  const int64_t vocab_size_;
  FeatureLog& features_;
  std::vector<Branch> branches_;

  // Of the round in progress.
  uint64_t round_ = 0;
  Then then_;  // set while collecting
  int64_t committed_length_ = 0;
  absl::Time deadline_;
  int num_awaited_ = 0;
  uint64_t wait_ = 0;    // counts the waits: a timer of an earlier one is void
  bool wanted_ = false;  // a tree, from somebody
  bool saw_answer_ = false;
  bool saw_malformed_ = false;
  bool saw_late_ = false;

  // For the round behind it.
  std::vector<std::vector<TokenId>> guesses_;  // the likeliest first
  DraftBudget ahead_budget_;
  absl::Time spare_until_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFT_FANOUT_H_
