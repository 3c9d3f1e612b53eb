#include "coordinator/http/chat_answer.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/http/called_answer.h"
#include "coordinator/http/chat_plan.h"

namespace espalier::coordinator {

absl::StatusOr<ApiRequest> ReadChat(
    const ApiContext& context, const http::Request& request,
    absl::StatusOr<ApiRequest> (*read)(const Json& body)) {
  ASSIGN_OR_RETURN(const Json body, ReadBody(request.body));
  ASSIGN_OR_RETURN(ApiRequest chat, read(body));
  RETURN_IF_ERROR(PlanChat(*context.model, chat));
  return chat;
}

std::unique_ptr<http::Answer> StartChat(const ApiContext& context,
                                        const ChatApi& api,
                                        const http::Request& request,
                                        http::Wake wake) {
  absl::StatusOr<ApiRequest> chat = ReadChat(context, request, api.read);
  if (!chat.ok()) return Failed(chat.status(), api.error);
  const std::string id = NewId(api.id_prefix);
  chat->generate.set_request_id(id);
  CalledAnswer::Options options = {
      .calls = {},
      .writer =
          api.new_writer(*chat, {.id = id,
                                 .model = context.model->name,
                                 .created = absl::ToUnixSeconds(absl::Now())}),
      .stream = chat->stream,
      .error = api.error,
      .names = chat->names};
  options.calls.push_back(context.generator->Start(
      std::move(chat->generate), CallerOf(request), std::move(wake)));
  return std::make_unique<CalledAnswer>(std::move(options));
}

}  // namespace espalier::coordinator
