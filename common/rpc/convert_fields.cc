#include "common/rpc/convert_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"

namespace espalier {
namespace {

constexpr uint64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr int kMaxPassCosts = 1024;

}  // namespace

absl::Status CheckAtMost(absl::string_view field, uint64_t value,
                         uint64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", value, " exceeds ", limit));
}

absl::StatusOr<std::string> Text(absl::string_view field,
                                 const std::string& text, size_t limit) {
  if (text.size() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " of ", text.size(), " bytes, limit ", limit));
  }
  return Printable(text, limit);
}

uint32_t ClampToUint32(int64_t value) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(value, 0, static_cast<int64_t>(kMaxUint32)));
}

uint32_t ClampedMicroseconds(absl::Duration duration) {
  return ClampToUint32(absl::ToInt64Microseconds(duration));
}

void ToProto(const PassCosts& costs,
             google::protobuf::RepeatedPtrField<v1::PassCost>& messages) {
  for (const PassCost& cost : costs) {
    v1::PassCost& message = *messages.Add();
    message.set_rows(ClampToUint32(cost.rows));
    message.set_time_us(ClampedMicroseconds(cost.time));
  }
}

absl::StatusOr<PassCosts> CostsFromProto(
    const google::protobuf::RepeatedPtrField<v1::PassCost>& messages) {
  RETURN_IF_ERROR(
      CheckAtMost("pass_costs: entries", messages.size(), kMaxPassCosts));
  PassCosts costs;
  for (const v1::PassCost& message : messages) {
    const PassCost cost = {.rows = message.rows(),
                           .time = absl::Microseconds(message.time_us())};
    const PassCost before = costs.empty() ? PassCost{} : costs.back();
    if (cost.rows <= before.rows || cost.time < before.time) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pass_costs: ", message.time_us(), " us for ", cost.rows,
          " rows after ", absl::ToInt64Microseconds(before.time), " us for ",
          before.rows, "; rows must ascend and times not fall"));
    }
    costs.push_back(cost);
  }
  return costs;
}

v1::MemoryUse ToProto(const MemoryUse& memory) {
  v1::MemoryUse message;
  message.set_kv_tokens(static_cast<uint64_t>(memory.kv_tokens));
  message.set_kv_tokens_used(static_cast<uint64_t>(memory.kv_tokens_used));
  message.set_kv_tokens_cached(static_cast<uint64_t>(memory.kv_tokens_cached));
  message.set_device_bytes(static_cast<uint64_t>(memory.device_bytes));
  message.set_device_bytes_used(
      static_cast<uint64_t>(memory.device_bytes_used));
  return message;
}

absl::StatusOr<MemoryUse> FromProto(const v1::MemoryUse& message) {
  for (const uint64_t value :
       {message.kv_tokens(), message.kv_tokens_used(),
        message.kv_tokens_cached(), message.device_bytes(),
        message.device_bytes_used()}) {
    RETURN_IF_ERROR(CheckAtMost("memory", value, kMaxInt64));
  }
  return MemoryUse{
      .kv_tokens = static_cast<int64_t>(message.kv_tokens()),
      .kv_tokens_used = static_cast<int64_t>(message.kv_tokens_used()),
      .kv_tokens_cached = static_cast<int64_t>(message.kv_tokens_cached()),
      .device_bytes = static_cast<int64_t>(message.device_bytes()),
      .device_bytes_used = static_cast<int64_t>(message.device_bytes_used())};
}

void ToProto(const std::vector<int32_t>& taps,
             google::protobuf::RepeatedField<uint32_t>& after_layers) {
  after_layers.Add(taps.begin(), taps.end());
}

}  // namespace espalier
