// Propagation of absl::Status, until the packaged Abseil ships these macros.
#ifndef ESPALIER_COMMON_BASE_STATUS_MACROS_H_
#define ESPALIER_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                           \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

#define ESPALIER_CONCAT_INNER(a, b) a##b
#define ESPALIER_CONCAT(a, b) ESPALIER_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(target, expression)                               \
  ESPALIER_ASSIGN_OR_RETURN(ESPALIER_CONCAT(status_or_, __LINE__), target, \
                            expression)

#define ESPALIER_ASSIGN_OR_RETURN(temporary, target, expression) \
  auto temporary = (expression);                                 \
  if (!temporary.ok()) return std::move(temporary).status();     \
  target = *std::move(temporary)

#endif  // ESPALIER_COMMON_BASE_STATUS_MACROS_H_
