#ifndef ESPALIER_COORDINATOR_SPECULATION_CONTROL_H_
#define ESPALIER_COORDINATOR_SPECULATION_CONTROL_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/spec/pass_cost.h"
#include "common/spec/token_tree.h"
#include "coordinator/draft_call.h"
#include "coordinator/drafter_choice.h"
#include "coordinator/node_budget.h"
#include "coordinator/running_mean.h"
#include "coordinator/speculation_record.h"

namespace espalier::coordinator {

// Spends a session's time where it brings most tokens: whom to ask, how long to
// wait, how many nodes to verify. All three have one price: what the sessions
// emit in the time. Nodes and time that do not pay are not spent, down to plain
// decoding and back. Lives on the executor.
class SpeculationControl {
 public:
  // `record` is shared by the sessions; peers: the session's drafters in it.
  // costs: the verifier's, as they are known at the time.
  SpeculationControl(SpeculationRecord* record, bool greedy,
                     std::vector<int> peers, const PassCosts* costs);
  ~SpeculationControl();
  SpeculationControl(const SpeculationControl&) = delete;
  SpeculationControl& operator=(const SpeculationControl&) = delete;

  // Of the round that begins, by drafter: first those whose answers cost next
  // to nothing,
  std::vector<DraftCall> QuickCalls() const;
  // then those of the others that are worth their time for what these leave;
  // now and then all of them, if no node seems to pay: a trial. at_hand: of a
  // policy that foresees.
  std::vector<DraftCall> FurtherCalls(const TokenTree& at_hand);
  // Nodes that a quick drafter is to draft, of `limit` at most: what the last
  // rounds paid for, with room to grow.
  int64_t NodesToDraft(int64_t limit) const;
  // And one that takes time for them.
  int64_t FurtherNodes(int64_t limit) const;

  // Takes off the nodes that do not pay, unless the round is a trial: without
  // one, a cost of rows that was found too high would never be found wrong, as
  // no pass would have more than one. REQUIRES: of a policy that foresees.
  void Cut(TokenTree& tree);
  // What the nodes of a tree that pay should bring, see TreeGain. REQUIRES: of
  // a policy that foresees.
  double Gain(const TokenTree& tree) const;
  // What they have brought where these tokens, the last of them the verifier's
  // own, were emitted.
  double GainIn(absl::Span<const TokenId> emitted, TokenTree tree) const;
  // What one node would have brought.
  double GainOfANode(bool accepted) const;

  struct Round {
    absl::Span<const DrafterReturn> returns;  // by drafter
    int64_t num_tokens = 0;                   // emitted
    absl::Duration duration;
  };
  void Learn(const Round& round);

 private:
  // What time is worth: what the session emits in it, or would without trees.
  double tokens_per_second() const;
  double others() const;       // sessions
  int64_t other_rows() const;  // of a pass: theirs and the root
  RowPrice price() const;
  std::vector<DraftCall> TrialCalls() const;
  DraftCall Call(int drafter, DraftCall::Attention attention) const;

  int num_drafters() const { return static_cast<int>(peers_.size()); }

  SpeculationRecord& record_;
  SpeculationRecord::Kind& kind_;
  const std::vector<int> peers_;
  const PassCosts& costs_;
  DrafterChoice choice_;
  Pace pace_;
  RunningMean nodes_;  // of a tree
  bool first_round_ = true;
  bool spent_nodes_ = false;  // since the last probe
  bool trial_ = false;        // the round in progress
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_SPECULATION_CONTROL_H_
