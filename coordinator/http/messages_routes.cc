// Anthropic's /v1/messages and /v1/messages/count_tokens.
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/http/called_answer.h"
#include "coordinator/http/chat_plan.h"
#include "coordinator/http/encoded_answer.h"
#include "coordinator/http/messages_request.h"
#include "coordinator/http/messages_writer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

absl::StatusOr<ApiRequest> ReadMessage(const ApiContext& context,
                                       const http::Request& request,
                                       bool generates) {
  ASSIGN_OR_RETURN(const Json body, ReadBody(request.body));
  ASSIGN_OR_RETURN(ApiRequest api, ReadMessagesRequest(body, generates));
  RETURN_IF_ERROR(PlanChat(*context.model, api));
  return api;
}

std::unique_ptr<http::Answer> Message(const ApiContext& context,
                                      const http::Request& request,
                                      http::Wake wake) {
  auto api = ReadMessage(context, request, /*generates=*/true);
  if (!api.ok()) return Failed(api.status(), AnthropicError);
  const std::string id = NewId("msg_");
  api->generate.set_request_id(id);
  CalledAnswer::Options options = {
      .calls = {},
      .writer = NewMessagesWriter(
          *api, {.id = id,
                 .model = context.model->name,
                 .created = absl::ToUnixSeconds(absl::Now())}),
      .stream = api->stream,
      .error = AnthropicError};
  options.calls.push_back(context.generator->Start(
      std::move(api->generate), CallerOf(request), std::move(wake)));
  return std::make_unique<CalledAnswer>(std::move(options));
}

std::unique_ptr<http::Answer> CountTokens(const ApiContext& context,
                                          const http::Request& request,
                                          http::Wake wake) {
  auto api = ReadMessage(context, request, /*generates=*/false);
  if (!api.ok()) return Failed(api.status(), AnthropicError);
  return NewEncodedAnswer(
      *context.generator, std::move(api->generate),
      [](const std::vector<TokenId>& tokens) {
        return Json{{"input_tokens", tokens.size()}};
      },
      AnthropicError, std::move(wake));
}

}  // namespace

void AddMessagesRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/messages",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return Message(context, request, std::move(wake));
           },
       .error = AnthropicError});
  routes.push_back(
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return CountTokens(context, request, std::move(wake));
           },
       .error = AnthropicError});
}

}  // namespace espalier::coordinator
