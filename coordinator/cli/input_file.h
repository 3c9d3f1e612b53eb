#ifndef ESPALIER_COORDINATOR_CLI_INPUT_FILE_H_
#define ESPALIER_COORDINATOR_CLI_INPUT_FILE_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "absl/status/statusor.h"

namespace espalier::cli {

inline constexpr size_t kMaxInputBytes = size_t{1} << 30;

// The content of the file, or of `in` if `path` is "-". NOT_FOUND: cannot be
// read. INVALID_ARGUMENT: above kMaxInputBytes.
absl::StatusOr<std::string> ReadInput(const std::string& path,
                                      std::istream& in);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_INPUT_FILE_H_
