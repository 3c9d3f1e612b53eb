#ifndef ESPALIER_DRAFTER_ENGINE_HOST_FEATURE_STORE_H_
#define ESPALIER_DRAFTER_ENGINE_HOST_FEATURE_STORE_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/speculation/features.h"
#include "drafter/engine/feature_store.h"

namespace espalier::drafter {

// The FeatureStore of networks that run on the CPU.
class HostFeatureStore final : public FeatureStore {
 public:
  explicit HostFeatureStore(FeatureContract contract)
      : contract_(std::move(contract)) {}

  FeatureContract contract() const override { return contract_; }
  void Append(SequenceId id, int64_t position,
              absl::Span<const uint16_t> rows) override;
  void Cut(SequenceId id, FeatureRange range) override;

  // [positions, width] bf16. Valid until the next change. REQUIRES: all of them
  // are held.
  absl::Span<const uint16_t> Rows(SequenceId id, FeatureRange range) const;

 private:
  const FeatureContract contract_;
  absl::flat_hash_map<SequenceId, FeatureRows> sequences_;  // not empty
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_HOST_FEATURE_STORE_H_
