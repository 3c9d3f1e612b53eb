#ifndef ESPALIER_COMMON_SPEC_STORED_FEATURES_H_
#define ESPALIER_COMMON_SPEC_STORED_FEATURES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// Features of consecutive positions in the memory of a device, bf16, [rows,
// taps, hidden].
struct StoredRows {
  int64_t first_position = 0;
  int64_t num_rows = 0;
  const uint16_t* data = nullptr;               // on the device
  std::shared_ptr<const void> owner = nullptr;  // rows stay while it lives

  int64_t end_position() const { return first_position + num_rows; }
};

// The target's features that stay on its device, for drafters of its process
// (FeatureRequest::store). Thread-safe.
class StoredFeatures {
 public:
  virtual ~StoredFeatures() = default;

  // What is held under the key at these taps from `position` on, or from a
  // later one if those before are lost: runs that follow each other. Empty:
  // nothing.
  virtual std::vector<StoredRows> Find(uint64_t key,
                                       absl::Span<const int32_t> taps,
                                       int64_t position) const = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_STORED_FEATURES_H_
