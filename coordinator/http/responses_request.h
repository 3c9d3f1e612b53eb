#ifndef ESPALIER_COORDINATOR_HTTP_RESPONSES_REQUEST_H_
#define ESPALIER_COORDINATOR_HTTP_RESPONSES_REQUEST_H_

#include "absl/status/statusor.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// Reads the body of OpenAI's /v1/responses as a chat. Nothing is stored, so
// what refers to earlier responses is refused. FieldErrors.
absl::StatusOr<ApiRequest> ReadResponsesRequest(const Json& body);
// The table of its own fields, for the documentation.
FieldTable ResponsesFields();

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_RESPONSES_REQUEST_H_
