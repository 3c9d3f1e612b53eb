#ifndef ESPALIER_COMMON_JSON_PARSE_JSON_H_
#define ESPALIER_COMMON_JSON_PARSE_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Parses untrusted JSON. INVALID_ARGUMENT, with `source` before the message
// unless it is empty: nested deeper than 64, not JSON (with the byte), or an
// object with a repeated key (with the key).
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text,
                                         const std::string& source);

// INVALID_ARGUMENT as well: not an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text,
                                               const std::string& source);

// One line of UTF-8, in which U+FFFD stands for bytes that are none.
std::string ToText(const nlohmann::json& json);

}  // namespace espalier

#endif  // ESPALIER_COMMON_JSON_PARSE_JSON_H_
