// Status details that the gRPC edge converts to google.rpc.BadRequest,
// RetryInfo and ErrorInfo.
#ifndef ESPALIER_COMMON_SPECULATION_REQUEST_ERRORS_H_
#define ESPALIER_COMMON_SPECULATION_REQUEST_ERRORS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

// INVALID_ARGUMENT that names the wrong field of the request. The message reads
// "<field>: <what>".
absl::Status FieldError(absl::string_view field, absl::string_view what);
// `status`, whose message is that of a FieldError, with the field.
absl::Status WithField(absl::Status status, absl::string_view field);
// Returns the field of a FieldError; nullopt for every other status.
std::optional<std::string> FieldOf(const absl::Status& status);

// Returns a FieldError unless least <= value <= most. NaN is in no range.
absl::Status CheckRange(absl::string_view field, float value, float least,
                        float most);

// Checks that all tokens are valid. A FieldError names the first token outside
// the vocabulary.
absl::Status CheckTokens(absl::string_view field,
                         absl::Span<const TokenId> tokens, int64_t vocab_size);

// `status` with the time after which to retry.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// `status` with its cause for programs, e.g. "QUEUE_FULL": ErrorInfo.reason.
absl::Status WithReason(absl::Status status, absl::string_view reason);
// Returns that cause; or INVALID_FIELD for a FieldError; or the name of the
// code.
std::string ReasonOf(const absl::Status& status);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_REQUEST_ERRORS_H_
