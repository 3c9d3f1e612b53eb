#ifndef ESPALIER_COMMON_CONFIG_LOAD_CONFIG_H_
#define ESPALIER_COMMON_CONFIG_LOAD_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace espalier {

// Fills `message` from a file in protobuf text format (no file if the name is
// empty), then from "path=value" overrides in order (see SetField).
// INVALID_ARGUMENT names file, line and column, or the override, and the known
// fields. NOT_FOUND, PERMISSION_DENIED etc.: the file cannot be read.
absl::Status LoadConfig(const std::string& file,
                        const std::vector<std::string>& overrides,
                        google::protobuf::Message& message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_LOAD_CONFIG_H_
