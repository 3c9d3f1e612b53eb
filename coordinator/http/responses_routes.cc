// OpenAI's /v1/responses.
#include <utility>

#include "coordinator/http/chat_answer.h"
#include "coordinator/http/generation_fields.h"
#include "coordinator/http/responses_request.h"
#include "coordinator/http/responses_writer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

constexpr ChatApi kResponses = {.read = ReadResponsesRequest,
                                .new_writer = NewResponsesWriter,
                                .id_prefix = "resp_"};

}  // namespace

void AddResponsesRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/responses",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return StartChat(context, kResponses, request, std::move(wake));
           },
       .summary = "an answer as OpenAI's API of responses has it",
       .fields = {ResponsesFields(), GenerationFields()}});
}

}  // namespace espalier::coordinator
