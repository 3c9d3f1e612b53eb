// The converters of convert.h share these, each for a single field.
#ifndef ESPALIER_COMMON_RPC_CONVERT_FIELDS_H_
#define ESPALIER_COMMON_RPC_CONVERT_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/speculation/messages.h"
#include "espalier/v1/types.pb.h"
#include "espalier/v1/verifier.pb.h"
#include "google/protobuf/repeated_field.h"

namespace espalier {

inline constexpr uint64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
inline constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Limits a name that a peer states.
inline constexpr size_t kMaxNameBytes = 128;

// INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckAtMost(absl::string_view field, uint64_t value,
                         uint64_t limit);

// A peer's text, made printable for logs, pages and clients. One longer than
// `limit` bytes is taken for malicious and refused, not cut.
absl::StatusOr<std::string> Text(absl::string_view field,
                                 const std::string& text, size_t limit);

// Converts a column of uint32 to int32.
template <typename Column>
absl::StatusOr<std::vector<int32_t>> Int32Column(absl::string_view field,
                                                 const Column& column) {
  for (uint32_t value : column) {
    RETURN_IF_ERROR(CheckAtMost(field, value, kMaxInt32));
  }
  return std::vector<int32_t>(column.begin(), column.end());
}

uint32_t ClampToUint32(int64_t value);
uint32_t ClampedMicroseconds(absl::Duration duration);

void ToProto(const PassCosts& costs,
             google::protobuf::RepeatedPtrField<v1::PassCost>& messages);
absl::StatusOr<PassCosts> CostsFromProto(
    const google::protobuf::RepeatedPtrField<v1::PassCost>& messages);

v1::MemoryUse ToProto(const MemoryUse& memory);
absl::StatusOr<MemoryUse> FromProto(const v1::MemoryUse& message);

void ToProto(const std::vector<int32_t>& taps,
             google::protobuf::RepeatedField<uint32_t>& after_layers);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONVERT_FIELDS_H_
