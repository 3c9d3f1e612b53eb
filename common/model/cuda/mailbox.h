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
// both sides, in the host's pinned memory and in the device's, and goes over as
// one: by a kernel where the device carries mail, and by copies elsewhere. It
// stays where it is, and is used again. One thread.
class Mailbox {
 public:
  // The device must outlive this object.
  explicit Mailbox(cuda::ComputeDevice& device)
      : device_(device), is_carried_(device.info().carries_mail) {}

  template <typename T>
  struct Room {
    absl::Span<T> here;
    T* there = nullptr;
  };

  // Forgets all rooms. Waits until they are sent. UNAVAILABLE: the device
  // failed.
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

  // Queues what brings all rooms to the device.
  void Send();
  // Brings all rooms to the host, and waits until they are there and all that
  // was queued is done. UNAVAILABLE: the device failed. RESOURCE_EXHAUSTED: no
  // room for a flag.
  absl::Status Receive();

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
  // Returns whether a kernel carries all rooms: they are in the first block
  // then.
  bool IsCarried() const;
  absl::Status ReceiveByKernel();

  cuda::ComputeDevice& device_;
  const bool is_carried_;
  std::deque<Block> blocks_;
  int64_t sent_ = 0;  // event after the last rooms; 0: waited for
  cuda::DeviceArray<uint32_t> flag_;  // of the host; empty: not used yet
  uint32_t number_ = 0;               // that the last kernel raised it to
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_MAILBOX_H_
