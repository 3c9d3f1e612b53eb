#include "common/speculation/request_errors.h"

#include <cstdint>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

constexpr char kFieldUrl[] = "espalier.v1/field";
constexpr char kRetryAfterUrl[] = "espalier.v1/retry_after_ms";
constexpr char kReasonUrl[] = "espalier.v1/reason";

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view what) {
  return WithField(absl::InvalidArgumentError(absl::StrCat(field, ": ", what)),
                   field);
}

absl::Status WithField(absl::Status status, absl::string_view field) {
  status.SetPayload(kFieldUrl, absl::Cord(field));
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) {
  auto payload = status.GetPayload(kFieldUrl);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

absl::Status CheckRange(absl::string_view field, float value, float least,
                        float most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return FieldError(
      field, absl::StrCat(value, " is not between ", least, " and ", most));
}

absl::Status CheckTokens(absl::string_view field,
                         absl::Span<const TokenId> tokens, int64_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return FieldError(
          field, absl::StrCat("token ", tokens[i], " at index ", i,
                              " outside the vocabulary of ", vocab_size));
    }
  }
  return absl::OkStatus();
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryAfterUrl,
                    absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(delay))));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  auto payload = status.GetPayload(kRetryAfterUrl);
  int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(reason));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (auto reason = status.GetPayload(kReasonUrl)) return std::string(*reason);
  if (FieldOf(status)) return "INVALID_FIELD";
  return absl::StatusCodeToString(status.code());
}

}  // namespace espalier
