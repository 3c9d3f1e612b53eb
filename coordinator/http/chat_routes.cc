// /v1/chat/completions.
#include <utility>

#include "coordinator/http/chat_answer.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/chat_writer.h"
#include "coordinator/http/generation_fields.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

constexpr ChatApi kChat = {.read = ReadChatRequest,
                           .new_writer = NewChatWriter,
                           .id_prefix = "chatcmpl-"};

}  // namespace

void AddChatRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return StartChat(context, kChat, request, std::move(wake));
           },
       .summary = "an answer in a chat, as OpenAI's API has it",
       .fields = {GenerationFields(), ConstraintFields(), ChatPromptFields(),
                  ChatFields()}});
}

}  // namespace espalier::coordinator
