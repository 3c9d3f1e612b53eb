#ifndef ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_
#define ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Parses an untrusted JSON object. INVALID_ARGUMENT, with `source` in the
// message: not JSON, not an object, a repeated key, or nested deeper than 64.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text,
                                               const std::string& source);

// Reads and parses a file of at most 64 MiB. NOT_FOUND: no such file.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_
