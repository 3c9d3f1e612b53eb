#ifndef ESPALIER_COORDINATOR_PEERS_DRAFT_FANOUT_H_
#define ESPALIER_COORDINATOR_PEERS_DRAFT_FANOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "common/speculation/endpoints.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/merge/merge_policy.h"
#include "coordinator/peers/acceptance_tracker.h"
#include "coordinator/peers/drafter_link.h"
#include "coordinator/peers/drafter_peer.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/peers/feature_log.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

// Asks the drafters of one session for trees and collects those that come in
// time. Whatever a drafter does, a round waits until the deadline at most and
// goes on with what has come from it: a complete tree, a partial one, or none.
// Lives on the executor.
class DraftFanout {
 public:
  struct Drafts {
    // In the order of drafters; `drafter` is its index in the session. Valid
    // until the next Collect.
    std::vector<DraftedTree> trees;
    // Why there are no trees; unset if the drafters had nothing to propose.
    std::optional<DegradedReason> degraded = {};
    // Is true if these are the trees that the round's last call gave.
    bool unchanged = false;
  };
  // Returns true if the round can go on with these trees alone.
  using Enough = absl::AnyInvocable<bool(absl::Span<const DraftedTree>)>;
  using Then = absl::AnyInvocable<void(Drafts) &&>;

  // Borrows all; `scope` ends with the session, `features` are the session's.
  // enough: null: waits for all awaited drafters.
  DraftFanout(const ExecutorScope* scope, std::vector<DrafterPeer*> drafters,
              int64_t vocab_size, FeatureLog* features,
              Enough enough = nullptr);

  // Starts a round. calls: by drafter. Runs `then` once, possibly before it
  // returns, and at the deadline at the latest. REQUIRES: the last `then` ran.
  void Collect(const Session& session, uint64_t round, DraftBudget budget,
               absl::Span<const DraftCall> calls, absl::Time deadline,
               Then then);
  // Asks drafters that were not asked yet in this round; `then` gets the trees
  // of all. REQUIRES: the last `then` ran.
  void CollectMore(const Session& session, DraftBudget budget,
                   absl::Span<const DraftCall> calls, Then then);

  // Time that the verification in progress leaves for lookahead.
  struct Spare {
    absl::Duration time;
    uint64_t
        cpu_group;  // of the verifier, which computes meanwhile; 0: own cores
  };
  // Returns true if a drafter that wants features was to be asked in this
  // round. It was not asked if the verifier still keeps some of them
  // (FeatureLog::deferred).
  bool needs_features() const { return needs_features_; }

  // Lets drafters work on the next round, as if the verification of `tree`
  // ended at its likeliest leaf, then at the next likeliest, as long as there
  // is time. Asks drafters that support it, were awaited in this round, and do
  // not share the verifier's cores. The next Collect uses a tree whose path the
  // text has taken.
  void DraftLookahead(const Session& session, const TokenTree& tree,
                      DraftBudget budget, const Spare& spare);

  // Results of the last Collect, by drafter, compared with the tokens emitted
  // since; also updates the metrics. Call it once after each Collect.
  std::vector<DrafterReturn> Returns(const Session& session);

  // The ranks that the next verification has to return.
  RanksRequest WantedRanks(bool greedy) const;

  // Tells the drafters that know the sequence to forget it.
  void EndSequence(SequenceId sequence);

  struct Troubles {
    int64_t timeouts = 0;
    int64_t errors = 0;
  };
  // Returns true if a drafter is asked in every round only to be measured.
  bool HasShadow() const;
  int num_drafters() const { return static_cast<int>(branches_.size()); }
  DrafterPeer& drafter(int index) const { return *branches_[index].peer; }
  // A tree of a drafter in the form of merge input.
  DraftedTree Drafted(int index, const TokenTree* tree) const;
  const Troubles& troubles(int index) const {
    return branches_[index].troubles;
  }

 private:
  // State of a drafter's latest request of a round.
  struct RequestState {
    bool awaited = false;  // the round waits for it
    absl::Duration patience = {};
    absl::Time sent = {};
    absl::Time deadline = {};
    uint64_t cpu_group = 0;  // the drafter's
  };
  // State of a drafter in the round in progress, or in the last one.
  struct RoundState {
    DraftCall::Attention attention = DraftCall::Attention::kNone;
    // Features that are sent, and those of the ring.
    FeatureContract sent_features = {};
    FeatureContract stored_features = {};
    bool wants_ranks = false;
    bool from_lookahead = false;  // its tree was there before the round
    bool used = false;            // its tree went into the merge
    // Until the answer or giving up; zero for a tree drafted ahead.
    std::optional<absl::Duration> waited = {};
    bool in_vain = false;         // `waited` ended without an answer
    absl::Duration arrived = {};  // see DraftedTree
    bool whole = true;
    absl::Duration compute = {};
    absl::Duration level = {};  // see DrafterReturn
  };
  // A drafter of the session.
  struct Branch {
    DrafterPeer* peer;
    DrafterLink link = {};
    AcceptanceTracker tracker = {};
    uint64_t asked_ring = 0;  // the verifier's at its latest request
    // The ring that lacked some: they are sent, until the verifier has another.
    uint64_t lacking_ring = 0;
    absl::Duration last_wait = {};  // for its last answer of a round
    size_t num_lookaheads = 0;      // of lookaheads_ that it was asked for
    Troubles troubles = {};
    RequestState request = {};
    RoundState round = {};
  };

  void Call(int index, const Session& session, DraftBudget budget,
            const DraftCall& call);
  void Ask(int index, const Session& session, DraftBudget budget,
           const DraftCall& call);
  bool TakeLookahead(Branch& branch, const Session& session);
  bool CanLookAhead(const Branch& branch, uint64_t verifier_cpu_group) const;
  void AskLookahead(int index, const Session& session);
  void WantFeatures();
  int64_t FeaturesHeldByAll() const;
  int64_t RanksHeldByAll() const;
  FeatureRows NewFeatures(Branch& branch);
  StoredFeatures NewStored(Branch& branch) const;
  void NoteLacks(const Proposal& proposal, Branch& branch);
  void OnPartial(int index, uint64_t round, Proposal proposal);
  void OnReply(int index, uint64_t ticket, absl::StatusOr<Proposal> reply);
  void OnLookahead(int index, const Session& session, uint64_t ticket,
                   absl::StatusOr<Proposal> reply);
  DraftOutcome Classify(const DrafterLink::Answer& answer) const;
  static void DropUntrustedDistributions(const DrafterPeer& peer,
                                         Proposal& proposal);
  void StopWaiting(Branch& branch);
  void WaitFurther();
  bool HasEnough();
  void GoOnWithoutTheRest();
  void OnDeadline();
  void Finish();
  // The trees that have come and are used.
  std::vector<DraftedTree> Trees() const;
  // The branch's tree of this round; null: none.
  const TokenTree* TreeOf(const Branch& branch) const;
  std::optional<DegradedReason> WhyDegraded() const;

  const ExecutorScope& scope_;
  const int64_t vocab_size_;
  FeatureLog& features_;
  Enough enough_;
  std::vector<Branch> branches_;

  // State of the round in progress.
  uint64_t round_ = 0;
  Then then_;  // set while collecting
  int64_t committed_length_ = 0;
  absl::Time began_;
  absl::Time deadline_;
  std::optional<size_t> num_trees_;  // given by the round's last call
  bool waited_ = false;              // by the call in progress
  int num_awaited_ = 0;
  uint64_t wait_ = 0;    // the timer of the wait in progress
  bool wanted_ = false;  // a tree of some drafter is awaited
  bool saw_answer_ = false;
  bool saw_malformed_ = false;
  bool saw_late_ = false;
  bool needs_features_ = false;

  // For the next round.
  std::vector<std::vector<TokenId>> lookaheads_;  // the likeliest first
  DraftBudget lookahead_budget_;
  absl::Time spare_until_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_DRAFT_FANOUT_H_
