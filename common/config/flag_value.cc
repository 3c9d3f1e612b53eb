#include "common/config/flag_value.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"

namespace espalier {
namespace {

absl::Status Expected(const std::string& text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not ", what));
}

template <typename T>
absl::Status ParseWhole(const std::string& text, T* value) {
  if (absl::SimpleAtoi(text, value)) return absl::OkStatus();
  return Expected(text, absl::StrCat("a whole number of 0 .. ",
                                     std::numeric_limits<T>::max()));
}

}  // namespace

absl::Status ParseFlagValue(const std::string& text, std::string* value) {
  *value = text;
  return absl::OkStatus();
}

absl::Status ParseFlagValue(const std::string& text, uint32_t* value) {
  return ParseWhole(text, value);
}

absl::Status ParseFlagValue(const std::string& text, int32_t* value) {
  if (absl::SimpleAtoi(text, value)) return absl::OkStatus();
  return Expected(text, "a whole number");
}

absl::Status ParseFlagValue(const std::string& text, uint64_t* value) {
  return ParseWhole(text, value);
}

absl::Status ParseFlagValue(const std::string& text, float* value) {
  if (absl::SimpleAtof(text, value) && std::isfinite(*value)) {
    return absl::OkStatus();
  }
  return Expected(text, "a number");
}

absl::Status ParseFlagValue(const std::string& text, Repeated* value) {
  value->values.push_back(text);
  return absl::OkStatus();
}

absl::Status ParseFlagValue(const std::string& text,
                            std::map<uint32_t, float>* value) {
  value->clear();
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits(':', 1));
    uint32_t id = 0;
    float number = 0;
    if (!absl::SimpleAtoi(parts.first, &id) ||
        !absl::SimpleAtof(parts.second, &number) || !std::isfinite(number) ||
        !value->emplace(id, number).second) {
      return Expected(text, "a list of ID:NUMBER, each id once");
    }
  }
  return absl::OkStatus();
}

absl::Status ParseFlagValue(const std::string& text, absl::Duration* value) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0) ||
      !std::isfinite(seconds)) {
    return Expected(text, "a number of seconds above 0");
  }
  *value = absl::Seconds(seconds);
  return absl::OkStatus();
}

}  // namespace espalier
