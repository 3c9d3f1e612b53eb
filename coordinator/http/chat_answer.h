#ifndef ESPALIER_COORDINATOR_HTTP_CHAT_ANSWER_H_
#define ESPALIER_COORDINATOR_HTTP_CHAT_ANSWER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/http/answer_writer.h"
#include "coordinator/http/field_table.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {

// Describes in what the APIs differ whose requests are chats.
struct ChatApi {
  absl::StatusOr<ApiRequest> (*read)(const Json& body);
  std::unique_ptr<AnswerWriter> (*new_writer)(const ApiRequest& request,
                                              AnswerName name);
  absl::string_view id_prefix;
  ErrorShape error = OpenAiError;
};

// Reads the body with `read` and plans it for the served model. FieldErrors.
absl::StatusOr<ApiRequest> ReadChat(
    const ApiContext& context, const http::Request& request,
    absl::StatusOr<ApiRequest> (*read)(const Json& body));

// Starts the call of a chat. Returns its answer, or the refusal.
std::unique_ptr<http::Answer> StartChat(const ApiContext& context,
                                        const ChatApi& api,
                                        const http::Request& request,
                                        http::Wake wake);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_CHAT_ANSWER_H_
