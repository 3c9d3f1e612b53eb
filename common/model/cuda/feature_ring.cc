#include "common/model/cuda/feature_ring.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/secret_number.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/open_device.h"

namespace espalier {
namespace {

constexpr int64_t kShareOfMemory = 32;
constexpr int64_t kMaxBytes = int64_t{4} << 30;
constexpr int64_t kDataUnit = 256;
constexpr int64_t kMaxRows = 256;  // of a segment that comes from the host

}  // namespace

FeatureRing::FeatureRing(std::shared_ptr<cuda::ComputeDevice> device,
                         cuda::DeviceArray<std::byte> memory,
                         cuda::DeviceArray<RingHeader> header,
                         FeatureRingInfo info)
    : device_(std::move(device)),
      memory_(std::move(memory)),
      header_(std::move(header)),
      requests_(*device_),
      info_(std::move(info)) {}

absl::StatusOr<std::shared_ptr<FeatureRing>> FeatureRing::Make(
    std::shared_ptr<cuda::ComputeDevice> device, int64_t data_bytes) {
  FeatureRingInfo info = {.device_id = device->info().id,
                          .data_bytes = data_bytes / kDataUnit * kDataUnit};
  if (info.data_bytes < kDataUnit) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring of ", data_bytes, " bytes"));
  }
  while (info.id == 0) info.id = SecretNumber();
  ASSIGN_OR_RETURN(auto memory, cuda::DeviceArray<std::byte>::Make(
                                    *device, kRingDataStart + info.data_bytes,
                                    cuda::Memory::kShared));
  ASSIGN_OR_RETURN(auto header, cuda::DeviceArray<RingHeader>::Make(
                                    *device, 1, cuda::Memory::kHost));
  *header.data() = {.id = info.id,
                    .data_bytes = static_cast<uint64_t>(info.data_bytes)};
  if (auto handle = device->Export(memory.data()); handle.ok()) {
    info.handle = *std::move(handle);
  }
  auto ring = std::shared_ptr<FeatureRing>(
      new FeatureRing(std::move(device), std::move(memory), std::move(header),
                      std::move(info)));
  RETURN_IF_ERROR(ring->WriteHeader());
  return ring;
}

absl::StatusOr<std::shared_ptr<FeatureRing>> FeatureRing::Open(
    const std::string& device, int64_t data_bytes) {
  ASSIGN_OR_RETURN(auto opened, OpenComputeDevice(device));
  if (data_bytes == 0) {
    data_bytes =
        std::min(opened->info().memory_bytes / kShareOfMemory, kMaxBytes);
  }
  return Make(std::move(opened), data_bytes);
}

absl::Status FeatureRing::WriteHeader() {
  device_->Copy(memory_.data(), header_.data(), sizeof(RingHeader));
  return device_->Wait(device_->Record());
}

absl::StatusOr<std::vector<RingSegment>> FeatureRing::Put(
    absl::Span<const int32_t> taps, const Pass& pass,
    absl::Span<const int32_t> kept, int64_t position) {
  const int64_t width = std::ssize(taps) * pass.hidden;
  return Append(
      position, std::ssize(kept),
      width * static_cast<int64_t>(sizeof(cuda::bf16_t)), [&](std::byte* to) {
        return Gather(pass, taps, kept, reinterpret_cast<cuda::bf16_t*>(to));
      });
}

absl::StatusOr<std::vector<RingSegment>> FeatureRing::PutRows(
    absl::Span<const uint16_t> rows, int64_t width, int64_t position) {
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(cuda::bf16_t));
  std::vector<RingSegment> segments;
  for (; !rows.empty(); rows.remove_prefix(segments.back().num_rows * width)) {
    const int64_t count = std::min(std::ssize(rows) / width, kMaxRows);
    ASSIGN_OR_RETURN(const std::vector<RingSegment> added,
                     Append(position, count, row_bytes, [&](std::byte* to) {
                       device_->Copy(to, rows.data(), count * row_bytes);
                       return absl::OkStatus();
                     }));
    if (added.empty()) break;
    segments.push_back(added[0]);
    position += count;
  }
  return segments;
}

absl::StatusOr<std::vector<RingSegment>> FeatureRing::Append(
    int64_t position, int64_t rows, int64_t row_bytes,
    absl::FunctionRef<absl::Status(std::byte* to)> write) {
  const int64_t bytes = rows * row_bytes;
  if (rows == 0 || bytes > info_.data_bytes) return std::vector<RingSegment>();
  uint64_t& cursor = header_.data()->cursor;
  const uint64_t offset = NextOffset(cursor, bytes, info_.data_bytes);
  cursor = offset + bytes;
  device_->Copy(memory_.data() + offsetof(RingHeader, cursor), &cursor,
                sizeof(cursor));
  const absl::Status written =
      write(memory_.data() + kRingDataStart + offset % info_.data_bytes);
  RETURN_IF_ERROR(device_->Wait(device_->Record()));
  if (absl::IsResourceExhausted(written)) return std::vector<RingSegment>();
  RETURN_IF_ERROR(written);
  return std::vector<RingSegment>{
      {.first_position = position, .num_rows = rows, .offset = offset}};
}

absl::Status FeatureRing::Gather(const Pass& pass,
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
  RETURN_IF_ERROR(requests_.Clear());
  ASSIGN_OR_RETURN(const int32_t* const wanted, requests_.Put(points));
  ASSIGN_OR_RETURN(
      const int32_t* const rows,
      requests_.Put(std::vector<int32_t>(kept.begin(), kept.end())));
  requests_.Send();
  device_->Launch(
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

}  // namespace espalier
