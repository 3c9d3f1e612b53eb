#ifndef ESPALIER_COMMON_MODEL_CUDA_DEVICE_FEATURE_STORE_H_
#define ESPALIER_COMMON_MODEL_CUDA_DEVICE_FEATURE_STORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/mailbox.h"
#include "common/spec/stored_features.h"

namespace espalier {

// Features in a device's memory. The verifier's model puts in the rows that it
// keeps, in the form that each contract wants; drafters of the process copy
// from there to their own. It has a queue of its own, and waits for it: what
// Find gives is written. Rows stay until their sequence is forgotten or others
// need the room: then those of the sequence that was put in least recently go
// first, the earliest positions first. Thread-safe.
class DeviceFeatureStore final : public StoredFeatures {
 public:
  DeviceFeatureStore(std::unique_ptr<cuda::ComputeDevice> device,
                     int64_t max_bytes);
  // On the device of that name, a thirty-second of its memory at most, and 4
  // GiB. FAILED_PRECONDITION: as OpenComputeDevice.
  static absl::StatusOr<std::shared_ptr<DeviceFeatureStore>> Open(
      const std::string& device);

  // Hidden states of a pass that is done, on the device.
  struct Pass {
    const cuda::bf16_t* states = nullptr;  // [points, rows, hidden]
    absl::Span<const int32_t> points;      // taps, ascending
    int rows = 0;
    int hidden = 0;
  };
  // Puts in the rows `kept` of the pass, as those of the positions from
  // `position` on; those that are there already stay. After a gap they replace
  // the earlier ones. Rows for which there is no room are lost. UNAVAILABLE:
  // the device failed. REQUIRES: the pass has all taps.
  absl::Status Put(uint64_t key, absl::Span<const int32_t> taps,
                   const Pass& pass, absl::Span<const int32_t> kept,
                   int64_t position);
  // The same with rows of the host, [positions, width].
  absl::Status PutRows(uint64_t key, absl::Span<const int32_t> taps,
                       absl::Span<const uint16_t> rows, int64_t width,
                       int64_t position);
  // Drops the sequence's rows from `position` on.
  void Forget(uint64_t key, int64_t position);

  std::vector<StoredRows> Find(uint64_t key, absl::Span<const int32_t> taps,
                               int64_t position) const override;

  int64_t num_bytes() const;

 private:
  // A queue and who may use it.
  struct Queue {
    explicit Queue(std::unique_ptr<cuda::ComputeDevice> opened)
        : device(std::move(opened)), requests(*device) {}

    Mutex mutex;
    const std::unique_ptr<cuda::ComputeDevice> device;
    Mailbox requests ABSL_GUARDED_BY(mutex);
  };
  // An array of the device, which any thread may drop.
  struct Memory {
    Memory(std::shared_ptr<Queue> of, cuda::DeviceArray<cuda::bf16_t> array)
        : queue(std::move(of)), rows(std::move(array)) {}
    ~Memory();

    const std::shared_ptr<Queue> queue;
    cuda::DeviceArray<cuda::bf16_t> rows;
  };
  struct Run {
    int64_t begin = 0;  // position
    int64_t end = 0;
    int64_t room = 0;  // rows
    std::shared_ptr<Memory> memory;
  };
  using Runs = std::deque<Run>;  // each follows the one before, none is empty
  struct Sequence {
    uint64_t put = 0;  // when, in calls of Put
    std::map<std::vector<int32_t>, Runs> by_taps;
  };
  // Dropped without the lock, which the memory takes.
  using Dropped = std::vector<std::shared_ptr<Memory>>;

  // Queues what writes rows: all but the first `skipped`.
  using Write =
      absl::FunctionRef<absl::Status(int64_t skipped, cuda::bf16_t* to)>;
  // Makes the rows end at position + count.
  absl::Status Add(uint64_t key, absl::Span<const int32_t> taps, int64_t width,
                   int64_t position, int64_t count, Write write);
  absl::Status Gather(const Pass& pass, absl::Span<const int32_t> taps,
                      absl::Span<const int32_t> kept, cuda::bf16_t* to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_->mutex);
  // Where `rows` further rows go. RESOURCE_EXHAUSTED: there is no room.
  absl::StatusOr<cuda::bf16_t*> MakeRoom(Runs& runs, int64_t position,
                                         int64_t rows, int64_t width,
                                         Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_->mutex);
  bool DropEarliest(Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_->mutex);
  void Drop(Run run, Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_->mutex);

  const std::shared_ptr<Queue> queue_;
  const int64_t max_bytes_;
  int64_t num_bytes_ ABSL_GUARDED_BY(queue_->mutex) = 0;
  uint64_t puts_ ABSL_GUARDED_BY(queue_->mutex) = 0;
  absl::flat_hash_map<uint64_t, Sequence> sequences_
      ABSL_GUARDED_BY(queue_->mutex);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_DEVICE_FEATURE_STORE_H_
