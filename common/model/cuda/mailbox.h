#ifndef ESPALIER_COMMON_MODEL_CUDA_MAILBOX_H_
#define ESPALIER_COMMON_MODEL_CUDA_MAILBOX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"

namespace espalier {

// Holds what host and device tell each other about a pass: room that exists on
// both sides, in the host's pinned memory and in the device's, and goes over in
// one copy. It stays where it is, and is used again. One thread.
class Mailbox {
 public:
  // The device must outlive this object.
  explicit Mailbox(cuda::ComputeDevice& device) : device_(device) {}

  template <typename T>
  struct Room {
    absl::Span<T> here;
    T* there = nullptr;
  };

  // Forgets all rooms. Waits for the copies between them, if nobody has waited
  // since. UNAVAILABLE: the device failed.
  absl::Status Clear();

  // Makes room for so many elements, of which nothing is known. Valid until
  // Clear. RESOURCE_EXHAUSTED: no room on the device.
  template <typename T>
  absl::StatusOr<Room<T>> Reserve(int64_t size) {
    const absl::StatusOr<Place> place =
        Find(std::max<int64_t>(size, 1) * static_cast<int64_t>(sizeof(T)));
    if (!place.ok()) return place.status();
    return Room<T>{
        .here = {reinterpret_cast<T*>(place->here), static_cast<size_t>(size)},
        .there = reinterpret_cast<T*>(place->there)};
  }

  // Makes room with these values, for so many at least; where they will be on
  // the device.
  template <typename T>
  absl::StatusOr<T*> Put(const std::vector<T>& values, int64_t most = 0) {
    absl::StatusOr<Room<T>> room =
        Reserve<T>(std::max<int64_t>(std::ssize(values), most));
    if (!room.ok()) return room.status();
    std::copy(values.begin(), values.end(), room->here.begin());
    return room->there;
  }

  // Queue the copies of all rooms.
  void Send();   // to the device
  void Fetch();  // to the host

  // The device was waited for: no copy is under way.
  void NoteWaited() { copied_ = 0; }

 private:
  struct Block {
    cuda::DeviceArray<std::byte> here, there;
    int64_t used = 0;
  };
  struct Place {
    std::byte* here = nullptr;
    std::byte* there = nullptr;
  };
  absl::StatusOr<Place> Find(int64_t bytes);

  cuda::ComputeDevice& device_;
  std::deque<Block> blocks_;
  int64_t copied_ = 0;  // event after the last copy; 0: waited for
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_MAILBOX_H_
