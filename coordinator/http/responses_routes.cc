// OpenAI's /v1/responses.
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/http/called_answer.h"
#include "coordinator/http/chat_plan.h"
#include "coordinator/http/responses_request.h"
#include "coordinator/http/responses_writer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

absl::StatusOr<ApiRequest> ReadResponse(const ApiContext& context,
                                        const http::Request& request) {
  ASSIGN_OR_RETURN(const Json body, ReadBody(request.body));
  ASSIGN_OR_RETURN(ApiRequest api, ReadResponsesRequest(body));
  RETURN_IF_ERROR(PlanChat(*context.model, api));
  return api;
}

std::unique_ptr<http::Answer> Respond(const ApiContext& context,
                                      const http::Request& request,
                                      http::Wake wake) {
  absl::StatusOr<ApiRequest> api = ReadResponse(context, request);
  if (!api.ok()) return Failed(api.status());
  const std::string id = NewId("resp_");
  api->generate.set_request_id(id);
  CalledAnswer::Options options = {
      .calls = {},
      .writer = NewResponsesWriter(
          *api, {.id = id,
                 .model = context.model->name,
                 .created = absl::ToUnixSeconds(absl::Now())}),
      .stream = api->stream};
  options.calls.push_back(context.generator->Start(
      std::move(api->generate), CallerOf(request), std::move(wake)));
  return std::make_unique<CalledAnswer>(std::move(options));
}

}  // namespace

void AddResponsesRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/responses",
       .handle = [context](const http::Request& request, http::Wake wake) {
         return Respond(context, request, std::move(wake));
       }});
}

}  // namespace espalier::coordinator
