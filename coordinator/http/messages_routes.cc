// Anthropic's /v1/messages and /v1/messages/count_tokens.
#include <utility>

#include "coordinator/http/chat_answer.h"
#include "coordinator/http/encoded_answer.h"
#include "coordinator/http/generation_fields.h"
#include "coordinator/http/messages_request.h"
#include "coordinator/http/messages_writer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

absl::StatusOr<ApiRequest> ReadMessage(const Json& body) {
  return ReadMessagesRequest(body, /*generates=*/true);
}
absl::StatusOr<ApiRequest> ReadCounted(const Json& body) {
  return ReadMessagesRequest(body, /*generates=*/false);
}

constexpr ChatApi kMessages = {.read = ReadMessage,
                               .new_writer = NewMessagesWriter,
                               .id_prefix = "msg_",
                               .error = AnthropicError};

std::unique_ptr<http::Answer> CountTokens(const ApiContext& context,
                                          const http::Request& request,
                                          http::Wake wake) {
  auto api = ReadChat(context, request, ReadCounted);
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
             return StartChat(context, kMessages, request, std::move(wake));
           },
       .error = AnthropicError,
       .summary = "an answer in a chat, as Anthropic's API has it",
       .fields = {MessagesFields(), GenerationFields()}});
  routes.push_back(
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return CountTokens(context, request, std::move(wake));
           },
       .error = AnthropicError,
       .summary = "how many tokens a chat has, as Anthropic's API has it",
       .fields = {MessagesFields(), GenerationFields()}});
}

}  // namespace espalier::coordinator
