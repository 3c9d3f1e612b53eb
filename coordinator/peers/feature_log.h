#ifndef ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_
#define ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_

#include <cstdint>

#include "common/spec/features.h"

namespace espalier::coordinator {

// The target's features at one session's committed positions, at all taps that
// its drafters want. They are kept so that a drafter that was late or has
// restarted can be fed again. Bounded: the oldest rows are dropped first. A
// drafter that needs dropped rows, or taps that no drafter wanted before, gets
// features from some position on and works without the earlier ones: computing
// them again would hold up the session for a mere draft. Pure state; lives on
// the executor.
class FeatureLog {
 public:
  FeatureLog(const TargetShape& target, int64_t max_bytes)
      : target_(target), max_bytes_(max_bytes) {}

  // Adds the taps that a drafter wants from now on. Ignored if the target lacks
  // a tap, or if all contracts together exceed kMaxFeatureWidth.
  void Want(const FeatureContract& contract);

  // The features that the next verification has to return.
  FeatureRequest Request() const;

  // Adds returned rows, up to the last position before `end`; ignores rows that
  // do not fit the request.
  void Add(const FeatureRows& rows, int64_t end);

  // The contract's columns of the rows from `position` on; no rows if there are
  // none, or if the contract was ignored.
  FeatureRows From(int64_t position, const FeatureContract& contract) const;

  int64_t num_bytes() const { return rows_.num_bytes(); }

 private:
  const TargetShape target_;
  const int64_t max_bytes_;
  FeatureContract wanted_;  // of all drafters together
  FeatureRows rows_;        // width: that of wanted_
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_FEATURE_LOG_H_
