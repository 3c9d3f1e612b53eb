// What is served about the server itself: models, health, metrics, version.
#include <utility>

#include "absl/strings/strip.h"
#include "common/base/version.h"
#include "common/rpc/metrics_text.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

Json ModelObject(const ApiContext& context) {
  Json model = {{"id", context.model->name},
                {"object", "model"},
                {"created", absl::ToUnixSeconds(context.start_time)},
                {"owned_by", "espalier"}};
  if (const auto verifier = context.verifier_info()) {
    model["max_model_len"] = verifier->max_context;
  }
  return model;
}

std::unique_ptr<http::Answer> OneModel(const ApiContext& context,
                                       const http::Request& request) {
  absl::string_view name = request.path;
  absl::ConsumePrefix(&name, "/v1/models/");
  const absl::Status known = CheckModelName(name, *context.model);
  if (!known.ok()) return Failed(known);
  return Answered(ModelObject(context));
}

std::unique_ptr<http::Answer> Ready(const ApiContext& context) {
  const absl::Status status = context.readiness();
  if (!status.ok()) return Failed(status);
  return Answered(Json{{"status", "ready"}});
}

void AddGet(
    std::string path, bool needs_key, std::string summary,
    std::function<std::unique_ptr<http::Answer>(const http::Request&)> answer,
    Routes& routes) {
  routes.push_back(
      {.method = "GET",
       .path = std::move(path),
       .handle = [answer = std::move(answer)](
                     const http::Request& request,
                     const http::Wake&) { return answer(request); },
       .needs_key = needs_key,
       .summary = std::move(summary)});
}

}  // namespace

void AddServerRoutes(const ApiContext& context, Routes& routes) {
  AddGet(
      "/health", /*needs_key=*/false, "200 while the process lives",
      [](const auto&) {
        return Answered(Json{{"status", "ok"}});
      },
      routes);
  AddGet(
      "/ready", /*needs_key=*/false, "200 while requests are served, else 503",
      [context](const auto&) { return Ready(context); }, routes);
  AddGet(
      "/version", /*needs_key=*/true, "the version of the server",
      [](const auto&) {
        return Answered(Json{{"version", Version()}});
      },
      routes);
  AddGet(
      "/metrics", /*needs_key=*/true, "metrics for Prometheus",
      [context](const auto&) {
        return Answered(http::Response{.content_type = kMetricsContentType,
                                       .body = MetricsText(*context.metrics)});
      },
      routes);
  AddGet(
      "/v1/models", /*needs_key=*/true, "the served model, in a list",
      [context](const auto&) {
        return Answered(Json{{"object", "list"},
                             {"data", Json::array({ModelObject(context)})}});
      },
      routes);
  AddGet(
      "/v1/models/", /*needs_key=*/true, "the served model",
      [context](const http::Request& request) {
        return OneModel(context, request);
      },
      routes);
}

}  // namespace espalier::coordinator
