#include "common/model/cuda/ring_reader.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {

absl::Status RingReader::Open(const FeatureRingInfo& ring) {
  if (ring_.id != 0 && ring == ring_) return absl::OkStatus();
  ring_ = {};
  theirs_ = {};
  if (ring.id == 0 || ring.data_bytes < 1 || ring.data_bytes > kMaxRingBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a ring of id ", ring.id, " and ", ring.data_bytes, " bytes"));
  }
  if (own_ != nullptr && own_->info().id == ring.id) {
    memory_ = own_->memory();
  } else {
    ASSIGN_OR_RETURN(
        theirs_, cuda::DeviceArray<std::byte>::Import(
                     device_, ring.handle, kRingDataStart + ring.data_bytes));
    memory_ = theirs_.data();
  }
  ASSIGN_OR_RETURN(const RingHeader header, ReadHeader());
  if (header.magic != RingHeader::kMagic || header.id != ring.id ||
      header.data_bytes != static_cast<uint64_t>(ring.data_bytes)) {
    theirs_ = {};
    return absl::FailedPreconditionError(
        "the memory that was opened is not of this ring");
  }
  ring_ = ring;
  return absl::OkStatus();
}

absl::StatusOr<RingHeader> RingReader::ReadHeader() {
  if (header_.size() == 0) {
    ASSIGN_OR_RETURN(header_, cuda::DeviceArray<RingHeader>::Make(
                                  device_, 1, cuda::Memory::kHost));
  }
  const auto* const header = reinterpret_cast<const RingHeader*>(memory_);
  device_.Copy(header_.data(), header, offsetof(RingHeader, cursor));
  device_.Copy(&header_.data()->cursor, &header->cursor,
               sizeof(RingHeader::cursor));
  RETURN_IF_ERROR(device_.Wait(device_.Record()));
  return *header_.data();
}

absl::StatusOr<int64_t> RingReader::Read(absl::Span<const RingSegment> segments,
                                         int64_t row_bytes, cuda::bf16_t* to) {
  const std::byte* const data = memory_ + kRingDataStart;
  int64_t place = 0;
  const auto bytes_of = [row_bytes](const RingSegment& segment) {
    return segment.num_rows * row_bytes;
  };
  for (const RingSegment& segment : segments) {
    const int64_t bytes = bytes_of(segment);
    if (IsInRing(segment.offset, bytes, ring_.data_bytes)) {
      device_.Copy(reinterpret_cast<std::byte*>(to) + place,
                   data + segment.offset % ring_.data_bytes, bytes);
    }
    place += bytes;
  }
  ASSIGN_OR_RETURN(const RingHeader header, ReadHeader());
  int64_t first = segments.front().first_position;
  for (const RingSegment& segment : segments) {
    const int64_t bytes = bytes_of(segment);
    if (!IsInRing(segment.offset, bytes, ring_.data_bytes) ||
        !IsIntact(segment.offset, bytes, ring_.data_bytes, header.cursor)) {
      first = segment.end_position();
    }
  }
  return first;
}

}  // namespace espalier
