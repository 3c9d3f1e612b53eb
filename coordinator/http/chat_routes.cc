// /v1/chat/completions.
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/http/called_answer.h"
#include "coordinator/http/chat_plan.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/chat_writer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

std::unique_ptr<http::Answer> Chat(const ApiContext& context,
                                   const http::Request& request,
                                   http::Wake wake) {
  const absl::StatusOr<Json> body = ReadBody(request.body);
  if (!body.ok()) return Failed(body.status());
  absl::StatusOr<ApiRequest> api = ReadChatRequest(*body);
  if (!api.ok()) return Failed(api.status());
  const absl::Status planned = PlanChat(*context.model, *api);
  if (!planned.ok()) return Failed(planned);
  const std::string id = NewId("chatcmpl-");
  api->generate.set_request_id(id);
  CalledAnswer::Options options = {
      .calls = {},
      .writer =
          NewChatWriter(*api, {.id = id,
                               .model = context.model->name,
                               .created = absl::ToUnixSeconds(absl::Now())}),
      .stream = api->stream};
  options.calls.push_back(context.generator->Start(
      std::move(api->generate), CallerOf(request), std::move(wake)));
  return std::make_unique<CalledAnswer>(std::move(options));
}

}  // namespace

void AddChatRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .handle = [context](const http::Request& request, http::Wake wake) {
         return Chat(context, request, std::move(wake));
       }});
}

}  // namespace espalier::coordinator
