#ifndef ESPALIER_COORDINATOR_PEERS_DRAFTER_LINK_H_
#define ESPALIER_COORDINATOR_PEERS_DRAFTER_LINK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/speculation/messages.h"
#include "common/speculation/token_tree.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/peers/rank_log.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

// State of one session about one of its drafters: how many committed tokens it
// holds, and whether a request is unanswered. There is at most one unanswered
// request: a late drafter is left alone until it answers, and then catches up
// in a single update. Only a draft for a lookahead is given up for another
// request. A drafter that sent an invalid tree is not asked again. Pure state;
// lives on the executor.
class DrafterLink {
 public:
  bool may_ask() const { return !quarantined_ && !pending_; }
  bool quarantined() const { return quarantined_; }
  bool was_asked() const { return was_asked_; }

  // First position whose features the drafter may lack.
  int64_t features_end() const { return features_end_; }

  // Makes the next request, which the caller sends. `features`, or those that
  // are `stored`, start at features_end(), if there are any. REQUIRES:
  // may_ask().
  ProposeRequest Ask(const Session& session, uint64_t round, DraftBudget budget,
                     FeatureRows features = {}, StoredFeatures stored = {});

  // Makes a request ahead of time, for a round that begins after the session
  // has got these tokens and one more. REQUIRES: may_ask(), `lookahead` is not
  // empty.
  ProposeRequest AskLookahead(const Session& session, uint64_t round,
                              DraftBudget budget, FeatureRows features,
                              std::vector<TokenId> lookahead,
                              StoredFeatures stored = {});
  // Adds the rows of the log that the drafter may lack to the last request.
  // REQUIRES: it is unanswered.
  void AddRanks(const RankLog& log, ProposeRequest& request);
  // Number of the first row that the drafter may lack.
  int64_t ranks_end() const { return ranks_end_; }

  // Identifies the last request.
  uint64_t ticket() const { return ticket_; }
  // Returns true if this request still awaits its answer. If not, its answer is
  // dropped.
  bool expects(uint64_t ticket) const { return pending_ && ticket == ticket_; }

  // Resolves the drafts for lookaheads; an unanswered one is given up. kHit:
  // one is the tree of this round, and TreeOf gives it. nullopt: there were
  // none. Call it once per round.
  std::optional<LookaheadOutcome> ResolveLookahead(const Session& session,
                                                   uint64_t round);

  struct Answer {
    uint64_t round = 0;         // of the request
    DraftOutcome outcome = {};  // kUsed, kEmpty, kStale, kMalformed or kError
    bool unavailable = false;
    // As the drafter reports them; zero: not known.
    absl::Duration compute_time = {};
    absl::Duration level_time = {};  // of a level of its tree below the first
  };
  // Takes a partial tree for the unanswered request; the answer's tree will
  // replace it. Returns kUsed, kEmpty or kMalformed.
  DraftOutcome ReceivePartial(Proposal proposal, int64_t vocab_size);
  // Takes the answer to the unanswered request. A draft for a lookahead is kept
  // for ResolveLookahead.
  Answer Receive(absl::StatusOr<Proposal> reply, int64_t vocab_size);

  // The valid tree of this round, complete or partial; null: none.
  const TokenTree* TreeOf(uint64_t round) const {
    return tree_round_ == round ? &tree_ : nullptr;
  }

  // The last valid answer to a request that was no lookahead, or a lookahead
  // that hit; of any round.
  struct Arrived {
    const TokenTree* tree;     // valid until the next Ask
    int64_t committed_length;  // tokens before the tree's predictions
  };
  // The answer that has arrived since the last call.
  std::optional<Arrived> TakeArrived();

 private:
  struct Pending {
    uint64_t round;
    int64_t committed_length = {};
    int64_t features_end = {};
    int64_t ranks_end = {};
    TokenId root;
    DraftBudget budget;
    std::vector<TokenId> lookahead = {};

    bool Fits(const Proposal& proposal, int64_t vocab_size) const;
  };
  // A tree drafted for a lookahead.
  struct Ahead {
    int64_t committed_length;
    std::vector<TokenId> lookahead;
    TokenTree tree;

    // The rest of the tree if the session has got the lookahead and one more
    // token; nullopt if it has not, or if the tree has nothing after that
    // token.
    std::optional<TokenTree> AfterLookahead(const Session& session) const;
  };

  ProposeRequest Request(const Session& session, Pending pending,
                         FeatureRows features, StoredFeatures stored);
  DraftOutcome TakeTree(Proposal proposal, const Pending& asked,
                        int64_t vocab_size);
  DraftOutcome ReceiveTree(Proposal proposal, const Pending& asked,
                           int64_t vocab_size);
  void Quarantine();
  DraftOutcome ReceiveError(const absl::Status& status, const Pending& asked);

  int64_t held_length_ = 0;
  int64_t features_end_ = 0;
  int64_t ranks_end_ = 0;
  bool was_asked_ = false;
  bool quarantined_ = false;
  uint64_t ticket_ = 0;
  std::optional<Pending> pending_;
  std::vector<Ahead> lookahead_;
  uint64_t tree_round_ = 0;  // rounds start at 1
  TokenTree tree_;
  std::optional<Arrived> arrived_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_DRAFTER_LINK_H_
