#ifndef ESPALIER_COMMON_CHAT_ORDERED_JSON_H_
#define ESPALIER_COMMON_CHAT_ORDERED_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Parses untrusted JSON, with keys in the order of the text, as templates print
// them. INVALID_ARGUMENT: as of ParseJson, or an integer beyond 64 bits, which
// would be printed as another number.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(
    const std::string& text);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_ORDERED_JSON_H_
