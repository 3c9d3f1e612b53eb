#include "common/speculation/stale_base.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

constexpr char kPayloadUrl[] = "espalier.v1/held_length";

}  // namespace

absl::Status StaleBaseError(int64_t held_length, int64_t base_length) {
  return WithHeldLength(absl::FailedPreconditionError(absl::StrCat(
                            "base_length ", base_length, " does not fit: ",
                            held_length, " tokens are held and agreed on")),
                        held_length);
}

absl::Status WithHeldLength(absl::Status status, int64_t held_length) {
  status.SetPayload(kPayloadUrl, absl::Cord(absl::StrCat(held_length)));
  return status;
}

std::optional<int64_t> HeldLength(const absl::Status& status) {
  auto payload = status.GetPayload(kPayloadUrl);
  int64_t held_length = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &held_length) ||
      held_length < 0) {
    return std::nullopt;
  }
  return held_length;
}

}  // namespace espalier
