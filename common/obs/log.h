// The log of a process: one line per event on stderr, with UTC time and level.
// Never log a prompt, an answer or a token. Thread-safe.
#ifndef ESPALIER_COMMON_OBS_LOG_H_
#define ESPALIER_COMMON_OBS_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace espalier {

// A value of an event, beside its message: message name=value name="text".
struct LogField {
  std::string name;
  std::variant<int64_t, double, std::string> value;
};
using LogFields = std::vector<LogField>;

void LogInfo(absl::string_view message, const LogFields& fields = {});
void LogWarning(absl::string_view message, const LogFields& fields = {});
void LogError(absl::string_view message, const LogFields& fields = {});

// Writes an event that no level hides, as "info".
void LogAlways(absl::string_view message);

enum class LogLevel { kInfo, kWarning, kError };
// "info", "warning", "error"; nullopt: another name.
std::optional<LogLevel> LogLevelNamed(absl::string_view name);
// Leaves out further events of lesser levels. Initially none is.
void SetLogLevel(LogLevel least);

// Makes each further event an object of JSON: "time", "level", "message" and
// its fields.
void LogAsJson();

}  // namespace espalier

#endif  // ESPALIER_COMMON_OBS_LOG_H_
