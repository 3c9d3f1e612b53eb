#ifndef ESPALIER_DRAFTER_HEADS_CUDA_FEATURE_STORE_H_
#define ESPALIER_DRAFTER_HEADS_CUDA_FEATURE_STORE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/ring_reader.h"
#include "drafter/engine/feature_store.h"

namespace espalier::drafter {

// The FeatureStore of networks that run on a GPU: an array of the device for
// each sequence.
class CudaFeatureStore final : public FeatureStore {
 public:
  // `device` must outlive the store.
  CudaFeatureStore(FeatureContract contract, cuda::ComputeDevice& device)
      : contract_(std::move(contract)), device_(device), ring_(device) {}
  ~CudaFeatureStore() override;

  FeatureContract contract() const override { return contract_; }
  void Append(SequenceId id, int64_t position,
              absl::Span<const uint16_t> rows) override;
  uint64_t device_id() const override { return device_.info().id; }
  void UseRing(std::shared_ptr<const FeatureRing> ring) override {
    ring_.UseOwn(std::move(ring));
  }
  absl::StatusOr<FeatureRange> AppendStored(
      SequenceId id, const StoredFeatures& stored) override;
  void Cut(SequenceId id, FeatureRange range) override;

  // [positions, width] on the device, until the next change.
  // RESOURCE_EXHAUSTED: they found no room there. REQUIRES: all of them were
  // appended, none was cut.
  absl::StatusOr<const cuda::bf16_t*> Rows(SequenceId id,
                                           FeatureRange range) const;

 private:
  struct Held {
    FeatureRange range;
    int64_t skipped = 0;  // rows before the first that is held
    cuda::DeviceArray<cuda::bf16_t> rows;
    absl::Status status;  // not OK: the rows are not there

    cuda::bf16_t* PlaceOf(int64_t position, int64_t width) const {
      return rows.data() + (skipped + position - range.begin) * width;
    }
  };

  // Returns the rows of the sequence, with room for `count` further positions
  // from `position` on.
  Held& Extend(SequenceId id, int64_t position, int64_t count);
  // Until what was sent last is read. UNAVAILABLE: the device failed.
  absl::Status AwaitCopies();
  absl::Status MakeRoom(int64_t positions, Held& held);
  absl::Status Send(absl::Span<const uint16_t> rows, cuda::bf16_t* to);

  const FeatureContract contract_;
  cuda::ComputeDevice& device_;
  cuda::DeviceArray<cuda::bf16_t> staging_;  // of the host
  int64_t sent_ = 0;  // event after the last copy from it; 0: none
  RingReader ring_;
  absl::flat_hash_map<SequenceId, Held> sequences_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_CUDA_FEATURE_STORE_H_
