#include "common/spec/trace_context.h"

#include <algorithm>
#include <cstddef>

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

}  // namespace

bool IsTraceparent(absl::string_view value) {
  constexpr size_t kTrace = 3, kSpan = 36, kFlags = 53;
  return value.size() == kFlags + 2 && value.substr(0, kTrace) == "00-" &&
         value[kSpan - 1] == '-' && value[kFlags - 1] == '-' &&
         IsId(value.substr(kTrace, 32)) && IsId(value.substr(kSpan, 16)) &&
         IsHex(value.substr(kFlags));
}

}  // namespace espalier
