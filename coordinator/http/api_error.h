#ifndef ESPALIER_COORDINATOR_HTTP_API_ERROR_H_
#define ESPALIER_COORDINATOR_HTTP_API_ERROR_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/http/message.h"
#include "coordinator/http/json_read.h"

namespace espalier::coordinator {

// The status of HTTP for an error.
int HttpStatus(const absl::Status& status);

// Fields of our own API that a client has set by another name -> that name.
using FieldNames = std::vector<std::pair<std::string, std::string>>;
// `status`; the field that it names has the client's name.
absl::Status WithClientNames(absl::Status status, const FieldNames& names);

// {"error": {"message", "type", "param", "code"}} of OpenAI's API. The message
// is that of our own API; fields are named as over HTTP.
Json OpenAiError(const absl::Status& status);
// {"type": "error", "error": {"type", "message"}} of Anthropic's API.
Json AnthropicError(const absl::Status& status);

// The response with an error's body, status and Retry-After.
using ErrorShape = Json (*)(const absl::Status& status);
http::Response ErrorResponse(const absl::Status& status, ErrorShape shape);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_API_ERROR_H_
