#ifndef ESPALIER_DRAFTER_ENGINE_FEATURE_STORE_H_
#define ESPALIER_DRAFTER_ENGINE_FEATURE_STORE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/feature_ring.h"
#include "common/speculation/features.h"
#include "common/speculation/types.h"

namespace espalier {

class FeatureRing;

namespace drafter {

// Consecutive positions: begin .. end - 1.
struct FeatureRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return begin >= end; }
  int64_t size() const { return empty() ? 0 : end - begin; }
  friend bool operator==(const FeatureRange&, const FeatureRange&) = default;
};

// The target's features, by sequence and position, in the memory of the device
// that a drafter's network runs on. The engine fills it from requests and
// decides what stays (SequenceStore); the network reads it; what lies between
// knows ranges of positions alone. One thread, the drafter's.
class FeatureStore {
 public:
  virtual ~FeatureStore() = default;

  // Returns what it holds of a position. Constant; not empty.
  virtual FeatureContract contract() const = 0;

  // Adds rows as a message has them, bf16, [positions, contract().width()], of
  // the positions from `position` on. REQUIRES: these follow those held.
  virtual void Append(SequenceId id, int64_t position,
                      absl::Span<const uint16_t> rows) = 0;

  // Returns the device whose memory it is (cuda::DeviceInfo::id); 0: the
  // host's. Constant.
  virtual uint64_t device_id() const { return 0; }

  // Tells it the ring of the verifier in this process, if there is one.
  virtual void UseRing(std::shared_ptr<const FeatureRing> /*ring*/) {}

  // Adds rows that the verifier left in a ring on this store's device, and
  // returns the positions that it added: all, but for the first ones if they
  // are not there any more; then what is held before these is of no use.
  // FAILED_PRECONDITION: the ring cannot be read; nothing is added. REQUIRES:
  // the segments follow each other and those held, and are not none.
  virtual absl::StatusOr<FeatureRange> AppendStored(
      SequenceId /*id*/, const StoredFeatures& /*stored*/) {
    return absl::FailedPreconditionError("features are not on a device");
  }

  // Drops what the sequence has outside of `range`.
  virtual void Cut(SequenceId id, FeatureRange range) = 0;
};

}  // namespace drafter
}  // namespace espalier

#endif  // ESPALIER_DRAFTER_ENGINE_FEATURE_STORE_H_
