#ifndef ESPALIER_COORDINATOR_DRAFTER_LINK_H_
#define ESPALIER_COORDINATOR_DRAFTER_LINK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/spec/messages.h"
#include "common/spec/token_tree.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/session.h"

namespace espalier::coordinator {

// What one session knows about one of its drafters: how many committed tokens
// it holds, and whether a request is unanswered. There is never more than one:
// a drafter that is late is left alone until it answers, then catches up in a
// single update; only a draft for a guess is given up for another request. A
// drafter that lies is not asked again. Pure state; lives on the executor.
class DrafterLink {
 public:
  bool may_ask() const { return !quarantined_ && !pending_; }
  bool quarantined() const { return quarantined_; }
  bool was_asked() const { return was_asked_; }

  // Where the features begin that the drafter may lack.
  int64_t features_end() const { return features_end_; }

  // The next request, which the caller sends; `features` from features_end()
  // on, as far as there are any. REQUIRES: may_ask().
  ProposeRequest Ask(const Session& session, uint64_t round, DraftBudget budget,
                     FeatureRows features = {});

  // The same ahead of time, for a round at the end of whose predecessor the
  // session may have got these tokens and one more.
  // REQUIRES: may_ask(), a guess.
  ProposeRequest AskAhead(const Session& session, uint64_t round,
                          DraftBudget budget, FeatureRows features,
                          std::vector<TokenId> guess);
  // Names the request that was made last.
  uint64_t ticket() const { return ticket_; }
  // Whether it is still to be answered. If not, its answer is for nobody.
  bool expects(uint64_t ticket) const { return pending_ && ticket == ticket_; }

  // What has become of the drafts for guesses, of which none is expected any
  // more. A hit is the tree of this round; TreeOf gives it. nullopt: there were
  // none. Once in a round.
  std::optional<Foresight> Foresee(const Session& session, uint64_t round);

  struct Answer {
    uint64_t round = 0;    // of the request
    DraftOutcome outcome;  // kUsed, kEmpty, kStale, kMalformed or kError
    bool unavailable = false;
    absl::Duration compute_time;  // that the drafter claims
  };
  // Takes a tree that comes before the answer to the unanswered request, and
  // that the answer's will replace. kUsed, kEmpty or kMalformed.
  DraftOutcome ReceivePartial(Proposal proposal, int64_t vocab_size);
  // Takes the answer to the unanswered request, whatever it is for: a draft for
  // a guess is kept for Foresee.
  Answer Receive(absl::StatusOr<Proposal> reply, int64_t vocab_size);

  // The valid tree of this round, whole or partial; null: none.
  const TokenTree* TreeOf(uint64_t round) const {
    return tree_round_ == round ? &tree_ : nullptr;
  }

  // The last valid answer, whichever round it is of.
  struct Arrived {
    const TokenTree* tree;     // valid until the next Ask
    int64_t committed_length;  // tokens before what it foretells
  };
  // What has arrived since this was last called.
  std::optional<Arrived> TakeArrived();

 private:
  struct Pending {
    uint64_t round;
    int64_t committed_length;
    int64_t features_end;
    TokenId root;
    DraftBudget budget;
    std::vector<TokenId> guess;

    bool Fits(const Proposal& proposal, int64_t vocab_size) const;
  };
  // A tree that was drafted for a guess.
  struct Ahead {
    int64_t committed_length;
    std::vector<TokenId> guess;
    TokenTree tree;

    // What is left of the tree if the session has got the guess and one more
    // token; empty if it has not, or there is nothing behind that token.
    std::optional<TokenTree> BehindGuess(const Session& session) const;
  };

  ProposeRequest Request(const Session& session, Pending pending,
                         FeatureRows features);
  DraftOutcome TakeTree(Proposal proposal, const Pending& asked,
                        int64_t vocab_size);
  DraftOutcome ReceiveTree(Proposal proposal, const Pending& asked,
                           int64_t vocab_size);
  void Quarantine();
  DraftOutcome ReceiveError(const absl::Status& status, const Pending& asked);

  int64_t held_length_ = 0;
  int64_t features_end_ = 0;
  bool was_asked_ = false;
  bool quarantined_ = false;
  uint64_t ticket_ = 0;
  std::optional<Pending> pending_;
  std::vector<Ahead> ahead_;
  uint64_t tree_round_ = 0;  // rounds start at 1
  TokenTree tree_;
  std::optional<Arrived> arrived_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFTER_LINK_H_
