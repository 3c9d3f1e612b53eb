#ifndef ESPALIER_COORDINATOR_HTTP_CHAT_REQUEST_H_
#define ESPALIER_COORDINATOR_HTTP_CHAT_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// As many tokens as fit the context.
inline constexpr uint32_t kAllThatFit = 0xffffffff;

// Reads the body of /v1/chat/completions. FieldErrors.
absl::StatusOr<ApiRequest> ReadChatRequest(const Json& body);
// Its fields, those that the prompt depends on and the others.
FieldTable ChatPromptFields();
FieldTable ChatFields();

// Reads one message of OpenAI's form. `path`: its field.
absl::Status ReadChatMessage(const std::string& path, const Json& message,
                             v1::ChatMessage& out);
// Appends messages of OpenAI's form to a chat. `name` is the field of the list.
absl::Status ReadMessages(absl::string_view name, const Json& messages,
                          v1::Chat& out);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_CHAT_REQUEST_H_
