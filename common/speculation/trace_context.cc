#include "common/speculation/trace_context.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/secret_number.h"

namespace espalier {
namespace {

bool IsHex(absl::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

bool IsId(absl::string_view digits) {
  return IsHex(digits) &&
         digits.find_first_not_of('0') != absl::string_view::npos;
}

// Where the parts of a traceparent begin.
constexpr size_t kTrace = 3, kSpan = 36, kFlags = 53;

// REQUIRES: `digits` are hexadecimal, 16 at most.
uint64_t Number(absl::string_view digits) {
  uint64_t number = 0;
  ESPALIER_CHECK(absl::SimpleHexAtoi(digits, &number));
  return number;
}

uint64_t NewId() {
  uint64_t id = 0;
  while (id == 0) id = SecretNumber();
  return id;
}

}  // namespace

bool IsTraceparent(absl::string_view value) {
  return value.size() == kFlags + 2 && value.substr(0, kTrace) == "00-" &&
         value[kSpan - 1] == '-' && value[kFlags - 1] == '-' &&
         IsId(value.substr(kTrace, 32)) && IsId(value.substr(kSpan, 16)) &&
         IsHex(value.substr(kFlags));
}

std::optional<TraceContext> ParseTraceparent(absl::string_view value) {
  if (!IsTraceparent(value)) return std::nullopt;
  return TraceContext{.trace_high = Number(value.substr(kTrace, 16)),
                      .trace_low = Number(value.substr(kTrace + 16, 16)),
                      .span = Number(value.substr(kSpan, 16)),
                      .sampled = (Number(value.substr(kFlags)) & 1) != 0};
}

std::string ToTraceparent(const TraceContext& context) {
  return absl::StrCat("00-", absl::Hex(context.trace_high, absl::kZeroPad16),
                      absl::Hex(context.trace_low, absl::kZeroPad16), "-",
                      absl::Hex(context.span, absl::kZeroPad16),
                      context.sampled ? "-01" : "-00");
}

TraceContext NewTrace() {
  return {.trace_high = NewId(), .trace_low = NewId(), .sampled = true};
}

TraceContext NewSpanOf(TraceContext trace) {
  trace.span = NewId();
  return trace;
}

}  // namespace espalier
