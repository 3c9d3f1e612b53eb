#ifndef ESPALIER_DRAFTER_FEATURE_STORE_H_
#define ESPALIER_DRAFTER_FEATURE_STORE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/spec/features.h"
#include "common/spec/stored_features.h"
#include "common/spec/types.h"

namespace espalier::drafter {

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

  // What it holds of a position. Constant; not empty.
  virtual FeatureContract contract() const = 0;

  // Adds rows as a message has them, bf16, [positions, contract().width()], of
  // the positions from `position` on. REQUIRES: these follow those held.
  virtual void Append(SequenceId id, int64_t position,
                      absl::Span<const uint16_t> rows) = 0;

  // Adds what the verifier left in the memory of this store's device: runs of
  // rows that follow each other and those held. That of the host, by default.
  virtual void AppendStored(SequenceId id, absl::Span<const StoredRows> runs) {
    for (const StoredRows& run : runs) {
      Append(
          id, run.first_position,
          {run.data, static_cast<size_t>(run.num_rows * contract().width())});
    }
  }

  // Drops what the sequence has outside of `range`.
  virtual void Cut(SequenceId id, FeatureRange range) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_FEATURE_STORE_H_
