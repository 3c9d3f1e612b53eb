#include "coordinator/http/http_api.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/http/own_host.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

// An answer with further headers.
class WithHeaders final : public http::Answer {
 public:
  WithHeaders(std::unique_ptr<http::Answer> answer, http::Headers headers)
      : answer_(std::move(answer)), headers_(std::move(headers)) {}

  std::optional<Head> Begin() override {
    std::optional<Head> head = answer_->Begin();
    if (!head) return head;
    http::Headers& out = head->response.headers;
    out.insert(out.end(), headers_.begin(), headers_.end());
    return head;
  }
  std::optional<std::string> Next() override { return answer_->Next(); }

 private:
  const std::unique_ptr<http::Answer> answer_;
  const http::Headers headers_;
};

// The key that a client shows, as OpenAI's or as Anthropic's clients do.
absl::string_view ShownKey(const http::Request& request) {
  absl::string_view shown = request.Header("Authorization");
  if (absl::ConsumePrefix(&shown, "Bearer ")) return shown;
  return request.Header("X-Api-Key");
}

bool IsBelow(absl::string_view path, absl::string_view folder) {
  return folder.size() > 1 && absl::EndsWith(folder, "/") &&
         path.size() > folder.size() && absl::StartsWith(path, folder);
}

}  // namespace

HttpApi::HttpApi(const ApiContext& context, Access access)
    : access_(std::move(access)), metrics_(context.metrics) {
  AddChatRoutes(context, routes_);
  AddCompletionRoutes(context, routes_);
  AddMessagesRoutes(context, routes_);
  AddResponsesRoutes(context, routes_);
  AddTextRoutes(context, routes_);
  AddServerRoutes(context, routes_);
  AddPageRoutes(context, routes_);
  AddOpenApiRoute(routes_);
}

const Route* HttpApi::Find(const http::Request& request) const {
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes_) {
    if (route.method != method) continue;
    if (route.path == request.path || IsBelow(request.path, route.path)) {
      return &route;
    }
  }
  return nullptr;
}

bool HttpApi::AllowsOrigin(absl::string_view origin) const {
  const auto& allowed = access_.allowed_origins;
  return std::find(allowed.begin(), allowed.end(), "*") != allowed.end() ||
         std::find(allowed.begin(), allowed.end(), origin) != allowed.end();
}

// Without keys, a web page must not be able to call what its reader can.
absl::Status HttpApi::CheckCaller(bool needs_key,
                                  http::Request& request) const {
  if (access_.keys != nullptr) {
    const auto name = access_.keys->Find(ShownKey(request));
    request.caller = name.value_or("");
    if (!needs_key || name) return absl::OkStatus();
    return WithReason(
        absl::UnauthenticatedError(ShownKey(request).empty()
                                       ? "no API key was shown"
                                       : "the API key is not known"),
        "INVALID_API_KEY");
  }
  const absl::string_view host = request.Header("Host");
  if (!access_.any_host && !host.empty() &&
      !http::IsOwnHost(host, access_.hosts)) {
    return absl::PermissionDeniedError(
        "call the server by its IP address, or name the host in http.hosts");
  }
  absl::string_view origin = request.Header("Origin");
  if (origin.empty() || AllowsOrigin(origin)) return absl::OkStatus();
  const bool is_own = (absl::ConsumePrefix(&origin, "http://") ||
                       absl::ConsumePrefix(&origin, "https://")) &&
                      origin == host;
  if (is_own) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the origin of the page is not in http.allowed_origins");
}

http::Headers HttpApi::CrossOrigin(const http::Request& request) const {
  const std::string origin(request.Header("Origin"));
  if (origin.empty() || !AllowsOrigin(origin)) return {};
  return {{"Access-Control-Allow-Origin", origin}, {"Vary", "Origin"}};
}

std::unique_ptr<http::Answer> HttpApi::NoRoute(
    const http::Request& request) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (route.path != request.path) continue;
    absl::StrAppend(&methods, methods.empty() ? "" : ", ", route.method);
  }
  if (methods.empty()) {
    return Failed(
        WithReason(absl::NotFoundError(absl::StrCat(
                       "nothing is served at ", Printable(request.path, 128))),
                   "NO_SUCH_PATH"));
  }
  if (request.method == "OPTIONS") {
    return Answered(http::Response{
        .content_type = "",
        .headers = {{"Allow", methods},
                    {"Access-Control-Allow-Methods", methods},
                    {"Access-Control-Allow-Headers", "*, Authorization"},
                    {"Access-Control-Max-Age", "600"}}});
  }
  http::Response response =
      ErrorResponse(absl::InvalidArgumentError(
                        absl::StrCat("the method is not one of ", methods)),
                    OpenAiError);
  response.status = 405;
  response.headers.emplace_back("Allow", methods);
  return Answered(std::move(response));
}

std::unique_ptr<http::Answer> HttpApi::Handle(http::Request request,
                                              http::Wake wake) {
  const Route* route = Find(request);
  const bool is_preflight = request.method == "OPTIONS";
  const absl::Status allowed = CheckCaller(
      !is_preflight && (route == nullptr || route->needs_key), request);
  http::Headers headers = CrossOrigin(request);
  std::unique_ptr<http::Answer> answer;
  if (!allowed.ok()) {
    answer = Failed(allowed, route == nullptr ? OpenAiError : route->error);
  } else if (route == nullptr) {
    answer = NoRoute(request);
  } else {
    answer = route->handle(std::move(request), std::move(wake));
  }
  answer = metrics_.Count(route == nullptr ? "none" : route->path,
                          std::move(answer));
  if (headers.empty()) return answer;
  return std::make_unique<WithHeaders>(std::move(answer), std::move(headers));
}

}  // namespace espalier::coordinator
