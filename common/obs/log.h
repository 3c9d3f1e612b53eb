// The log of a process: one line per event on stderr, with UTC time and level.
// Never log a prompt, an answer or a token. Thread-safe.
#ifndef ESPALIER_COMMON_OBS_LOG_H_
#define ESPALIER_COMMON_OBS_LOG_H_

#include "absl/strings/string_view.h"

namespace espalier {

void LogInfo(absl::string_view message);
void LogWarning(absl::string_view message);
void LogError(absl::string_view message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_OBS_LOG_H_
