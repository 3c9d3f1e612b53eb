#ifndef ESPALIER_COORDINATOR_HTTP_MESSAGES_REQUEST_H_
#define ESPALIER_COORDINATOR_HTTP_MESSAGES_REQUEST_H_

#include "absl/status/statusor.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// Reads the body of Anthropic's /v1/messages, or, unless `generates`, of
// /v1/messages/count_tokens, as a chat. FieldErrors.
absl::StatusOr<ApiRequest> ReadMessagesRequest(const Json& body,
                                               bool generates);
// The table of its own fields, for the documentation.
FieldTable MessagesFields();

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_MESSAGES_REQUEST_H_
