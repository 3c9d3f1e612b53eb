#ifndef ESPALIER_COORDINATOR_PEERS_RING_LOG_H_
#define ESPALIER_COORDINATOR_PEERS_RING_LOG_H_

#include <cstdint>
#include <vector>

#include "common/speculation/feature_ring.h"
#include "common/speculation/features.h"

namespace espalier::coordinator {

// Where the verifier's ring has one session's features, for drafters that read
// them there. Remembers what all of them have as well, up to kMaxRingSegments
// for each contract, so that a drafter that has restarted can be fed again.
// Pure state; lives on the executor.
class RingLog {
 public:
  explicit RingLog(const TargetShape& target) : target_(target) {}

  // The ring of the verifier that runs the session; id 0: it has none.
  void SetRing(const FeatureRingInfo& ring) { ring_ = ring; }
  const FeatureRingInfo& ring() const { return ring_; }

  // Has the verifier store the contract's features from now on. Ignored if the
  // target lacks a tap.
  void Want(const FeatureContract& contract);
  // Returns what the next verification is to store (FeatureRequest::store).
  std::vector<std::vector<int32_t>> Request() const;
  // Adds what it stored, of the positions before `end`.
  void Add(const StoredSegments& stored, int64_t end);

  // Returns true if the last rows of a verification that was to store the
  // contract are not in the ring: a drafter needs them over gRPC.
  bool Lacks(const FeatureContract& contract) const;
  // Returns what is there of the contract from `position` on; none: nothing.
  StoredFeatures From(int64_t position, const FeatureContract& contract) const;

 private:
  struct Held {
    StoredContract contract;
    int64_t end = 0;  // of the last verification that was to store it
  };
  const Held* Find(const FeatureContract& contract) const;

  const TargetShape target_;
  FeatureRingInfo ring_;
  uint64_t ring_id_ = 0;  // of what is held
  std::vector<Held> held_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_RING_LOG_H_
