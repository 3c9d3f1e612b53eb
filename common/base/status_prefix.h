#ifndef ESPALIER_COMMON_BASE_STATUS_PREFIX_H_
#define ESPALIER_COMMON_BASE_STATUS_PREFIX_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// Returns an error with "PREFIX: " before its message, such as the field of a
// configuration, a flag or a file; without its payloads. OK stays OK.
absl::Status WithPrefix(absl::string_view prefix, const absl::Status& status);

// Does the same to the error of a result.
template <typename T>
absl::StatusOr<T> WithPrefix(absl::string_view prefix,
                             absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return WithPrefix(prefix, result.status());
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_STATUS_PREFIX_H_
