#ifndef ESPALIER_COORDINATOR_HTTP_COMPLETION_REQUEST_H_
#define ESPALIER_COORDINATOR_HTTP_COMPLETION_REQUEST_H_

#include "absl/status/statusor.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// Reads the body of /v1/completions: one request of our own API for each of its
// prompts. FieldErrors.
absl::StatusOr<ApiRequest> ReadCompletionRequest(const Json& body);
// The table of its own fields, for the documentation.
FieldTable CompletionFields();

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_COMPLETION_REQUEST_H_
