#ifndef ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_
#define ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_

#include <cstdint>

#include "common/speculation/features.h"
#include "coordinator/peers/feature_budget.h"
#include "coordinator/peers/rank_log.h"
#include "coordinator/peers/ring_log.h"

namespace espalier::coordinator {

// The target's features at one session's committed positions, at all taps that
// its drafters want, until all of them have them; some for longer, so that a
// drafter that has restarted can be fed again. Bounded by the budget of all
// sessions: the oldest rows are dropped first. A drafter that needs dropped
// rows, or taps that no drafter wanted before, gets features from some position
// on and works without the earlier ones: computing them again would hold up the
// session for a mere draft. Pure state; lives on the executor.
class FeatureLog {
 public:
  // `budget` must outlive the log.
  FeatureLog(const TargetShape& target, FeatureBudget* budget)
      : target_(target), budget_(*budget), ring_(target) {}
  ~FeatureLog() { budget_.Change(counted_bytes_, 0); }
  FeatureLog(const FeatureLog&) = delete;
  FeatureLog& operator=(const FeatureLog&) = delete;

  // Adds the taps that a drafter wants from now on. Ignored if the target lacks
  // a tap, or if all contracts together exceed kMaxFeatureWidth.
  void Want(const FeatureContract& contract);
  // No drafter wants features that are sent.
  void WantNone();

  // Returns the features that the verifier leaves in its ring, for drafters
  // that read them.
  RingLog& ring() { return ring_; }
  const RingLog& ring() const { return ring_; }

  // The features that the next verification of a session of `length` tokens has
  // to return. Unless they are `needed` by a drafter, the verifier keeps them
  // for some rounds, which saves a message a round.
  FeatureRequest Request(bool needed, int64_t length);
  // Returns true if the verifier keeps features of committed positions.
  // Drafters that want features cannot be asked until they have come.
  bool deferred() const { return deferred_; }

  // Ranks, for drafters that want those.
  RankLog& ranks() { return ranks_; }

  // Adds returned rows, up to the last position before `end`; ignores rows that
  // do not fit the request.
  void Add(const FeatureRows& rows, int64_t end);

  // All drafters have the rows before `position`, for now.
  void Release(int64_t position);

  // The contract's columns of the rows from `position` on, as many as one
  // request may carry; no rows if there are none, or if the contract was
  // ignored.
  FeatureRows From(int64_t position, const FeatureContract& contract) const;

  int64_t num_bytes() const { return rows_.num_bytes(); }

 private:
  void CutToBudget();
  // Drops the first rows if there are more than `max_bytes`, but none from
  // `limit` on.
  void CutTo(int64_t max_bytes, int64_t limit);

  const TargetShape target_;
  FeatureBudget& budget_;
  int64_t counted_bytes_ = 0;  // in the budget
  int64_t released_ = 0;       // position
  FeatureContract wanted_;     // of all drafters together
  bool deferred_ = false;      // the last request was
  FeatureRows rows_;           // width: that of wanted_
  RingLog ring_;
  RankLog ranks_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_
