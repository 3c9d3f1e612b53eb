#include "common/model/cuda/device_feature_store.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/open_device.h"

namespace espalier {
namespace {

constexpr int64_t kShareOfMemory = 32;
constexpr int64_t kMostBytes = int64_t{4} << 30;
constexpr int64_t kLeastRows = 64;  // of a run: a round adds a few

int64_t BytesOf(int64_t numbers) {
  return numbers * static_cast<int64_t>(sizeof(cuda::bf16_t));
}

}  // namespace

DeviceFeatureStore::DeviceFeatureStore(
    std::unique_ptr<cuda::ComputeDevice> device, int64_t max_bytes)
    : queue_(std::make_shared<Queue>(std::move(device))),
      max_bytes_(max_bytes) {}

absl::StatusOr<std::shared_ptr<DeviceFeatureStore>> DeviceFeatureStore::Open(
    const std::string& device) {
  ASSIGN_OR_RETURN(auto opened, OpenComputeDevice(device));
  const int64_t share = opened->info().memory_bytes / kShareOfMemory;
  return std::make_shared<DeviceFeatureStore>(std::move(opened),
                                              std::min(share, kMostBytes));
}

DeviceFeatureStore::Memory::~Memory() {
  MutexLock lock(&queue->mutex);
  rows = {};
}

absl::Status DeviceFeatureStore::Put(uint64_t key,
                                     absl::Span<const int32_t> taps,
                                     const Pass& pass,
                                     absl::Span<const int32_t> kept,
                                     int64_t position) {
  return Add(key, taps, std::ssize(taps) * pass.hidden, position,
             std::ssize(kept), [&](int64_t skipped, cuda::bf16_t* to) {
               queue_->mutex.AssertHeld();
               return Gather(pass, taps, kept.subspan(skipped), to);
             });
}

absl::Status DeviceFeatureStore::PutRows(uint64_t key,
                                         absl::Span<const int32_t> taps,
                                         absl::Span<const uint16_t> rows,
                                         int64_t width, int64_t position) {
  return Add(key, taps, width, position, std::ssize(rows) / width,
             [&](int64_t skipped, cuda::bf16_t* to) {
               const auto added = rows.subspan(skipped * width);
               queue_->device->Copy(to, added.data(),
                                    BytesOf(std::ssize(added)));
               return absl::OkStatus();
             });
}

absl::Status DeviceFeatureStore::Add(uint64_t key,
                                     absl::Span<const int32_t> taps,
                                     int64_t width, int64_t position,
                                     int64_t count, Write write) {
  Dropped dropped;
  MutexLock lock(&queue_->mutex);
  Sequence& sequence = sequences_[key];
  sequence.put = ++puts_;
  Runs& runs = sequence.by_taps[{taps.begin(), taps.end()}];
  if (!runs.empty() && runs.back().end < position) {
    for (Run& run : std::exchange(runs, {})) Drop(std::move(run), dropped);
  }
  const int64_t known = runs.empty() ? 0 : runs.back().end - position;
  if (known >= count) return absl::OkStatus();
  const auto to =
      MakeRoom(runs, position + known, count - known, width, dropped);
  if (absl::IsResourceExhausted(to.status())) return absl::OkStatus();
  RETURN_IF_ERROR(to.status());
  const absl::Status written = write(known, *to);
  cuda::ComputeDevice& device = *queue_->device;
  RETURN_IF_ERROR(device.Wait(device.Record()));
  queue_->requests.NoteWaited();
  if (written.ok()) runs.back().end = position + count;
  if (runs.back().begin == runs.back().end) {
    Drop(std::move(runs.back()), dropped);
    runs.pop_back();
  }
  return absl::IsResourceExhausted(written) ? absl::OkStatus() : written;
}

absl::Status DeviceFeatureStore::Gather(const Pass& pass,
                                        absl::Span<const int32_t> taps,
                                        absl::Span<const int32_t> kept,
                                        cuda::bf16_t* to) {
  std::vector<int32_t> points;
  for (int32_t tap : taps) {
    const auto found =
        std::lower_bound(pass.points.begin(), pass.points.end(), tap);
    ESPALIER_CHECK(found != pass.points.end() && *found == tap);
    points.push_back(static_cast<int32_t>(found - pass.points.begin()));
  }
  Mailbox& requests = queue_->requests;
  RETURN_IF_ERROR(requests.Clear());
  ASSIGN_OR_RETURN(const int32_t* const wanted, requests.Put(points));
  ASSIGN_OR_RETURN(const int32_t* const rows, requests.Put(std::vector<int32_t>(
                                                  kept.begin(), kept.end())));
  requests.Send();
  queue_->device->Launch(
      cuda::GatherTapsArgs{.taps = pass.states,
                           .points = wanted,
                           .kept = rows,
                           .num_taps = static_cast<int>(points.size()),
                           .rows = pass.rows,
                           .hidden = pass.hidden,
                           .num_kept = static_cast<int>(kept.size()),
                           .out = to});
  return absl::OkStatus();
}

absl::StatusOr<cuda::bf16_t*> DeviceFeatureStore::MakeRoom(Runs& runs,
                                                           int64_t position,
                                                           int64_t rows,
                                                           int64_t width,
                                                           Dropped& dropped) {
  const auto used = [](const Run& run) { return run.end - run.begin; };
  if (runs.empty() || runs.back().room - used(runs.back()) < rows) {
    const int64_t room = std::max(rows, kLeastRows);
    const int64_t bytes = BytesOf(room * width);
    while (num_bytes_ + bytes > max_bytes_) {
      if (!DropEarliest(dropped)) {
        return absl::ResourceExhaustedError("more than the store holds");
      }
    }
    ASSIGN_OR_RETURN(auto array, cuda::DeviceArray<cuda::bf16_t>::Make(
                                     *queue_->device, room * width));
    num_bytes_ += bytes;
    runs.push_back(
        {.begin = position,
         .end = position,
         .room = room,
         .memory = std::make_shared<Memory>(queue_, std::move(array))});
  }
  const Run& run = runs.back();
  return run.memory->rows.data() + used(run) * width;
}

bool DeviceFeatureStore::DropEarliest(Dropped& dropped) {
  Runs* earliest = nullptr;
  uint64_t put = 0;
  for (auto& [key, sequence] : sequences_) {
    for (auto& [taps, runs] : sequence.by_taps) {
      if (runs.empty() || (earliest != nullptr && sequence.put >= put)) {
        continue;
      }
      earliest = &runs;
      put = sequence.put;
    }
  }
  if (earliest == nullptr) return false;
  Drop(std::move(earliest->front()), dropped);
  earliest->pop_front();
  return true;
}

void DeviceFeatureStore::Drop(Run run, Dropped& dropped) {
  num_bytes_ -= BytesOf(run.memory->rows.size());
  dropped.push_back(std::move(run.memory));
}

void DeviceFeatureStore::Forget(uint64_t key, int64_t position) {
  Dropped dropped;
  MutexLock lock(&queue_->mutex);
  const auto found = sequences_.find(key);
  if (found == sequences_.end()) return;
  bool holds_some = false;
  for (auto& [taps, runs] : found->second.by_taps) {
    while (!runs.empty() && runs.back().begin >= position) {
      Drop(std::move(runs.back()), dropped);
      runs.pop_back();
    }
    if (!runs.empty()) {
      runs.back().end = std::min(runs.back().end, position);
      holds_some = true;
    }
  }
  if (!holds_some) sequences_.erase(found);
}

std::vector<StoredRows> DeviceFeatureStore::Find(uint64_t key,
                                                 absl::Span<const int32_t> taps,
                                                 int64_t position) const {
  std::vector<StoredRows> found;
  MutexLock lock(&queue_->mutex);
  const auto sequence = sequences_.find(key);
  if (sequence == sequences_.end()) return found;
  const auto runs = sequence->second.by_taps.find({taps.begin(), taps.end()});
  if (runs == sequence->second.by_taps.end()) return found;
  for (const Run& run : runs->second) {
    const int64_t begin = std::max(run.begin, position);
    if (begin >= run.end) continue;
    const int64_t width = run.memory->rows.size() / run.room;
    found.push_back(
        {.first_position = begin,
         .num_rows = run.end - begin,
         .data = run.memory->rows.data() + (begin - run.begin) * width,
         .owner = run.memory});
  }
  return found;
}

int64_t DeviceFeatureStore::num_bytes() const {
  MutexLock lock(&queue_->mutex);
  return num_bytes_;
}

}  // namespace espalier
