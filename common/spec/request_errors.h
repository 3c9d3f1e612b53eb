// Details of a refusal that the gRPC edge turns into google.rpc.BadRequest and
// google.rpc.RetryInfo.
#ifndef ESPALIER_COMMON_SPEC_REQUEST_ERRORS_H_
#define ESPALIER_COMMON_SPEC_REQUEST_ERRORS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace espalier {

// INVALID_ARGUMENT that knows which field of the request is at fault. The
// message reads "<field>: <what>".
absl::Status FieldError(absl::string_view field, absl::string_view what);
// The field of a FieldError; nullopt for every other status.
std::optional<std::string> FieldOf(const absl::Status& status);

// `status` with advice on when to try again.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_REQUEST_ERRORS_H_
