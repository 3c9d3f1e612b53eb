#ifndef ESPALIER_COORDINATOR_FEATURE_LOG_H_
#define ESPALIER_COORDINATOR_FEATURE_LOG_H_

#include <cstdint>

#include "common/spec/features.h"

namespace espalier::coordinator {

// The target's features at one session's committed positions, at all points
// that its drafters want. Kept so that a drafter that was late or has restarted
// can be fed again. Bounded: the oldest rows go first. A drafter that comes for
// rows that are gone, or with points that nobody wanted before, gets the
// features from some position on and works without the earlier ones: computing
// them again would hold up the session for a mere guess. Pure state; lives on
// the executor.
class FeatureLog {
 public:
  FeatureLog(const TargetShape& target, int64_t max_bytes)
      : target_(target), max_bytes_(max_bytes) {}

  // A drafter wants these from now on. Ignored if the target lacks a point, or
  // all wishes together exceed kMaxFeatureWidth.
  void Want(const FeatureContract& contract);

  // What the next verification is to bring.
  FeatureRequest Request() const;

  // Takes what it brought, up to the last position before `end`; ignores what
  // does not fit the request.
  void Add(const FeatureRows& rows, int64_t end);

  // The contract's part of what is held from `position` on; no rows if there
  // are none, or the contract was ignored.
  FeatureRows From(int64_t position, const FeatureContract& contract) const;

  int64_t num_bytes() const { return rows_.num_bytes(); }

 private:
  const TargetShape target_;
  const int64_t max_bytes_;
  FeatureContract wanted_;  // of all drafters together
  FeatureRows rows_;        // width: that of wanted_
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_FEATURE_LOG_H_
