#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/convert_fields.h"
#include "common/speculation/features.h"

namespace espalier {
namespace {

using Segments = google::protobuf::RepeatedPtrField<v1::FeatureSegment>;

void ToProto(const std::vector<RingSegment>& segments, Segments& out) {
  for (const RingSegment& segment : segments) {
    v1::FeatureSegment& message = *out.Add();
    message.set_first_position(static_cast<uint64_t>(segment.first_position));
    message.set_num_rows(ClampToUint32(segment.num_rows));
    message.set_offset(segment.offset);
  }
}

// Sums of positions fit an int64.
absl::StatusOr<std::vector<RingSegment>> SegmentsFromProto(
    const std::string& field, const Segments& messages) {
  RETURN_IF_ERROR(CheckAtMost(absl::StrCat(field, ": entries"), messages.size(),
                              kMaxRingSegments));
  std::vector<RingSegment> segments;
  for (const v1::FeatureSegment& message : messages) {
    RETURN_IF_ERROR(CheckAtMost(absl::StrCat(field, ".first_position"),
                                message.first_position(), kMaxInt32));
    RETURN_IF_ERROR(CheckAtMost(absl::StrCat(field, ".num_rows"),
                                message.num_rows(), kMaxInt32));
    RETURN_IF_ERROR(CheckAtMost(absl::StrCat(field, ".offset"),
                                message.offset(), kMaxRingOffset));
    segments.push_back(
        {.first_position = static_cast<int64_t>(message.first_position()),
         .num_rows = message.num_rows(),
         .offset = message.offset()});
  }
  if (AreConsecutive(segments)) return segments;
  return absl::InvalidArgumentError(
      absl::StrCat(field,
                   ": one is empty, or does not begin where the one "
                   "before ends"));
}

}  // namespace

v1::FeatureRing ToProto(const FeatureRingInfo& ring) {
  v1::FeatureRing message;
  message.set_id(ring.id);
  message.set_device_id(ring.device_id);
  message.set_data_bytes(static_cast<uint64_t>(ring.data_bytes));
  message.set_handle(ring.handle);
  return message;
}

absl::StatusOr<FeatureRingInfo> FromProto(const v1::FeatureRing& message) {
  RETURN_IF_ERROR(CheckAtMost("ring.data_bytes", message.data_bytes(),
                              uint64_t{kMaxRingBytes}));
  RETURN_IF_ERROR(CheckAtMost("ring.handle: bytes", message.handle().size(),
                              uint64_t{kMaxRingHandleBytes}));
  return FeatureRingInfo{
      .id = message.id(),
      .device_id = message.device_id(),
      .data_bytes = static_cast<int64_t>(message.data_bytes()),
      .handle = message.handle()};
}

v1::StoredSegments ToProto(const StoredSegments& stored) {
  v1::StoredSegments message;
  message.set_ring_id(stored.ring_id);
  for (const std::vector<RingSegment>& segments : stored.contracts) {
    ToProto(segments, *message.add_contracts()->mutable_segments());
  }
  return message;
}

absl::StatusOr<StoredSegments> FromProto(const v1::StoredSegments& message) {
  StoredSegments stored = {.ring_id = message.ring_id()};
  RETURN_IF_ERROR(CheckAtMost("stored.contracts: entries",
                              message.contracts_size(), kMaxStoreContracts));
  for (const v1::StoredSegments::Contract& contract : message.contracts()) {
    ASSIGN_OR_RETURN(
        stored.contracts.emplace_back(),
        SegmentsFromProto("stored.contracts.segments", contract.segments()));
  }
  return stored;
}

v1::StoredFeatures ToProto(const StoredFeatures& stored) {
  v1::StoredFeatures message;
  *message.mutable_ring() = ToProto(stored.ring);
  ToProto(stored.segments, *message.mutable_segments());
  return message;
}

absl::StatusOr<StoredFeatures> FromProto(const v1::StoredFeatures& message) {
  StoredFeatures stored;
  ASSIGN_OR_RETURN(stored.ring, FromProto(message.ring()));
  ASSIGN_OR_RETURN(
      stored.segments,
      SegmentsFromProto("stored_features.segments", message.segments()));
  return stored;
}

}  // namespace espalier
