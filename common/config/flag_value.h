// Parsers of flag values, one overload per type. The error says what was
// expected; FlagSet adds the flag's name.
#ifndef ESPALIER_COMMON_CONFIG_FLAG_VALUE_H_
#define ESPALIER_COMMON_CONFIG_FLAG_VALUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace espalier {

// A flag that may be given several times, each with one value.
struct Repeated {
  std::vector<std::string> values;
};

absl::Status ParseFlagValue(const std::string& text, std::string* value);
absl::Status ParseFlagValue(const std::string& text, uint32_t* value);
absl::Status ParseFlagValue(const std::string& text, int32_t* value);
absl::Status ParseFlagValue(const std::string& text, uint64_t* value);
absl::Status ParseFlagValue(const std::string& text, float* value);
absl::Status ParseFlagValue(const std::string& text, Repeated* value);
// Seconds, above 0.
absl::Status ParseFlagValue(const std::string& text, absl::Duration* value);

// "ID:X,ID:X", each id once.
absl::Status ParseFlagValue(const std::string& text,
                            std::map<uint32_t, float>* value);

// Comma-separated, no element empty.
template <typename T>
absl::Status ParseFlagValue(const std::string& text, std::vector<T>* value) {
  value->clear();
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    absl::Status status =
        part.empty() ? absl::InvalidArgumentError("an element is empty")
                     : ParseFlagValue(part, &value->emplace_back());
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("in \"", text, "\": ", status.message()));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ParseFlagValue(const std::string& text, std::optional<T>* value) {
  return ParseFlagValue(text, &value->emplace());
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_FLAG_VALUE_H_
