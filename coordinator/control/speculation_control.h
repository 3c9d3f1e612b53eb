#ifndef ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_
#define ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/speculation/pass_cost.h"
#include "common/speculation/token_tree.h"
#include "coordinator/control/answer_ledger.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/drafter_policy.h"
#include "coordinator/control/paying_nodes.h"
#include "coordinator/control/plain_pace.h"
#include "coordinator/control/running_mean.h"
#include "coordinator/control/speculation_record.h"

namespace espalier::coordinator {

// Spends a session's time where it gains most tokens: which drafters to ask,
// how long to wait, how many nodes to verify. All three use one price of time:
// the tokens that the sessions emit in it. Nodes and time that do not pay are
// not spent, down to plain decoding and back, and an answer that has lost time
// by speculation decodes plainly (AnswerLedger). A function of what it is told:
// it has no clock. Lives on the executor.
class SpeculationControl {
 public:
  // `record` is shared by the sessions. peers: indices of the session's
  // drafters in it. costs: the verifier's latest known pass costs. explores:
  // all drafters are asked, whatever they cost, to learn about them.
  SpeculationControl(SpeculationRecord* record, bool greedy,
                     std::vector<int> peers, const PassCosts* costs,
                     bool explores = false);
  ~SpeculationControl();
  SpeculationControl(const SpeculationControl&) = delete;
  SpeculationControl& operator=(const SpeculationControl&) = delete;

  // Says whether the operator lets the drafter take part.
  void SetActive(int drafter, bool active) {
    policy_.SetActive(drafter, active);
  }

  // Begins a round at a text of `length` tokens. Returns whether it is one of
  // plain decoding: no drafter would be asked, the answer is behind plain
  // decoding, or the pace of plain decoding has to be measured.
  bool Rests(int64_t length);

  // Returns the round's calls of cheap drafters, which come first, by drafter.
  std::vector<DraftCall> FirstCalls() const;
  // Returns the calls of the other drafters, given the tree of the first.
  // at_hand: merged by a policy that ranks_by_acceptance.
  std::vector<DraftCall> FurtherCalls(const TokenTree& at_hand);
  // Nodes to ask of a cheap drafter, at most `limit`: as many as paid in the
  // last rounds, with room to grow.
  int64_t NodesToDraft(int64_t limit) const;
  // Nodes to ask of another drafter.
  int64_t FurtherNodes(int64_t limit) const;

  // Cuts the nodes that do not pay. REQUIRES: merged by a policy that
  // ranks_by_acceptance.
  void Cut(TokenTree& tree);
  // Expected gain of the nodes of a tree that pay, see TreeGain. REQUIRES:
  // merged by a policy that ranks_by_acceptance.
  double Gain(const TokenTree& tree) const;
  // Their actual gain if these tokens were emitted; the last token is the bonus
  // token.
  double GainIn(absl::Span<const TokenId> emitted, TokenTree tree) const;
  // Gain of a single node that was accepted or not.
  double GainOfANode(bool accepted) const;

  struct Round {
    // By drafter; empty if the round rested.
    absl::Span<const DrafterReturn> returns = {};
    int64_t num_tokens = 0;  // emitted
    absl::Duration duration = {};
    absl::Duration draft_wait = {};  // of it
    absl::Duration handling = {};    // of it: merging trees, learning from them
    absl::Duration pass = {};        // of it: the verifier's; zero: not known
    int64_t num_nodes = 0;           // of the verified tree, root excluded
  };
  // Ends the round. Returns the time that speculation won in it, compared with
  // plain decoding; below 0: lost.
  absl::Duration Learn(const Round& round);

  // The cost of rows, and
  RowCost row_cost() const;
  // of a round of plain decoding; zero: not known.
  absl::Duration PlainRound() const;

 private:
  void ObserveNodes(int64_t nodes);
  double LearnDrafters(const Round& round, double tokens, double other_seconds);
  // Price of time: the tokens that the session emits in it, or would emit by
  // plain decoding if that is more.
  double tokens_per_second() const;
  double others() const;       // other sessions
  int64_t other_rows() const;  // of a pass: the other sessions' and the root
  // Return what the verifier expects a pass of plain decoding to take: with the
  // rows of all sessions, with this session alone, and the difference.
  double PassSeconds() const;
  double LonePassSeconds() const;
  double OthersSeconds() const;
  double CostOfNextRow() const;

  int num_drafters() const { return static_cast<int>(peers_.size()); }

  SpeculationRecord& record_;
  SpeculationRecord::Kind& kind_;
  const std::vector<int> peers_;
  const PassCosts& costs_;
  const bool explores_;
  DrafterPolicy policy_;
  Throughput throughput_;
  PlainPace plain_;
  AnswerLedger ledger_;
  RunningMean nodes_;  // of a tree
  bool first_round_ = true;
  bool rests_ = false;  // nobody is asked in the round in progress
  bool saves_ = false;  // only cheap drafters are: the ledger is behind
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_
