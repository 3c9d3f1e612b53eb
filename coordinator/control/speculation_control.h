#ifndef ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_
#define ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/spec/pass_cost.h"
#include "common/spec/token_tree.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/drafter_choice.h"
#include "coordinator/control/paying_nodes.h"
#include "coordinator/control/running_mean.h"
#include "coordinator/control/speculation_record.h"

namespace espalier::coordinator {

// Spends a session's time where it gains most tokens: which drafters to ask,
// how long to wait, how many nodes to verify. All three use one price of time:
// the tokens that the sessions emit in it. Nodes and time that do not pay are
// not spent, down to plain decoding and back. Lives on the executor.
class SpeculationControl {
 public:
  // `record` is shared by the sessions. peers: indices of the session's
  // drafters in it. costs: the verifier's latest known pass costs.
  SpeculationControl(SpeculationRecord* record, bool greedy,
                     std::vector<int> peers, const PassCosts* costs);
  ~SpeculationControl();
  SpeculationControl(const SpeculationControl&) = delete;
  SpeculationControl& operator=(const SpeculationControl&) = delete;

  // Calls of the round that begins, by drafter: first those whose answers cost
  // next to nothing,
  std::vector<DraftCall> QuickCalls() const;
  // then those of the others that are worth their time, given the tree of the
  // first, and probes. at_hand: merged by a policy that ranks_by_acceptance.
  std::vector<DraftCall> FurtherCalls(const TokenTree& at_hand);
  // Nodes to ask of a quick drafter, at most `limit`: as many as paid in the
  // last rounds, with room to grow.
  int64_t NodesToDraft(int64_t limit) const;
  // Nodes to ask of a drafter that is not quick.
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

  // Whether the round that begins is one of plain decoding, because no drafter
  // would be asked.
  bool Rests();

  struct Round {
    // By drafter; empty if the round rested.
    absl::Span<const DrafterReturn> returns;
    int64_t num_tokens = 0;  // emitted
    absl::Duration duration;
  };
  void Learn(const Round& round);

 private:
  void ObserveNodes(int64_t nodes);
  // Price of time: the tokens that the session emits in it, or would emit by
  // plain decoding if that is more.
  double tokens_per_second() const;
  double others() const;       // other sessions
  int64_t other_rows() const;  // of a pass: the other sessions' and the root
  DrafterChoice::TimePrice time_price() const;
  RowCost row_cost() const;
  DraftCall Call(int drafter, DraftCall::Attention attention) const;

  int num_drafters() const { return static_cast<int>(peers_.size()); }

  SpeculationRecord& record_;
  SpeculationRecord::Kind& kind_;
  const std::vector<int> peers_;
  const PassCosts& costs_;
  DrafterChoice choice_;
  Throughput throughput_;
  RunningMean nodes_;  // of a tree
  int64_t rest_ = 0;   // rounds that are known to rest
  bool first_round_ = true;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_SPECULATION_CONTROL_H_
