#ifndef ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_
#define ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// ParseJsonObject of a file of at most 64 MiB. NOT_FOUND: no such file.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_JSON_FILE_H_
