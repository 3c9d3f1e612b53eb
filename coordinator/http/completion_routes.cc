// /v1/completions.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/http/called_answer.h"
#include "coordinator/http/completion_request.h"
#include "coordinator/http/completion_writer.h"
#include "coordinator/http/generation_fields.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

std::unique_ptr<http::Answer> Complete(const ApiContext& context,
                                       const http::Request& request,
                                       const http::Wake& wake) {
  const absl::StatusOr<Json> body = ReadBody(request.body);
  if (!body.ok()) return Failed(body.status());
  absl::StatusOr<ApiRequest> api = ReadCompletionRequest(*body);
  if (!api.ok()) return Failed(api.status());
  const std::string id = NewId("cmpl-");
  CalledAnswer::Options options = {
      .calls = {},
      .writer = NewCompletionWriter(
          *api, {.id = id,
                 .model = context.model->name,
                 .created = absl::ToUnixSeconds(absl::Now())}),
      .stream = api->stream,
      .names = api->names};
  const Caller caller = CallerOf(request);
  for (size_t i = 0; i < api->prompts.size(); ++i) {
    v1::GenerateRequest& prompt = api->prompts[i];
    prompt.set_request_id(i == 0 ? id : absl::StrCat(id, "-", i));
    options.calls.push_back(
        context.generator->Start(std::move(prompt), caller, wake));
  }
  return std::make_unique<CalledAnswer>(std::move(options));
}

}  // namespace

void AddCompletionRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/v1/completions",
       .handle =
           [context](const http::Request& request, const http::Wake& wake) {
             return Complete(context, request, wake);
           },
       .summary = "how a text goes on, as OpenAI's API has it",
       .fields = {GenerationFields(), ConstraintFields(), CompletionFields()}});
}

}  // namespace espalier::coordinator
