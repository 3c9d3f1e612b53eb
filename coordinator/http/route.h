// The HTTP API serves a list of routes, each made by the file of its topic.
#ifndef ESPALIER_COORDINATOR_HTTP_ROUTE_H_
#define ESPALIER_COORDINATOR_HTTP_ROUTE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/http/answer.h"
#include "common/http/page_server.h"
#include "common/speculation/messages.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/generator.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/field_table.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// Holds what routes work with. Borrowed: outlives them.
struct ApiContext {
  Generator* generator = nullptr;
  const ServedModel* model = nullptr;
  // Description of the verifier, once one has been connected.
  std::function<std::optional<VerifierInfo>()> verifier_info;
  // OK: requests are served now. Called on any thread.
  std::function<absl::Status()> readiness;
  // Has what /metrics shows and counts requests over HTTP. Never null.
  std::shared_ptr<prometheus::Registry> metrics;
  // Pages to look at, which need no key, and data for them, which do.
  std::vector<http::Page> pages = {};
  std::vector<http::Page> page_data = {};
  // JSON of the rounds of a request with this request_id; nullopt: not known.
  std::function<std::optional<std::string>(const std::string& request_id)>
      rounds = [](const std::string&) { return std::nullopt; };
  absl::Time start_time;
};

// The fields of a route's body: those that its description has.
using BodyFields = std::vector<FieldTable>;

struct Route {
  std::string method;
  // All of the path; or its beginning, if it ends with "/" and more follows.
  std::string path;
  http::Handler handle;
  ErrorShape error = OpenAiError;
  bool needs_key = true;
  std::string summary = {};  // for people
  BodyFields fields = {};    // empty: no JSON is read
};
using Routes = std::vector<Route>;

void AddChatRoutes(const ApiContext& context, Routes& routes);
void AddCompletionRoutes(const ApiContext& context, Routes& routes);
void AddMessagesRoutes(const ApiContext& context, Routes& routes);
void AddResponsesRoutes(const ApiContext& context, Routes& routes);
void AddTextRoutes(const ApiContext& context, Routes& routes);
void AddServerRoutes(const ApiContext& context, Routes& routes);
void AddPageRoutes(const ApiContext& context, Routes& routes);
// The description of all routes, which are there by now.
void AddOpenApiRoute(Routes& routes);

// Helpers of routes.
std::unique_ptr<http::Answer> Answered(http::Response response);
std::unique_ptr<http::Answer> Answered(const Json& body);
std::unique_ptr<http::Answer> Failed(const absl::Status& status,
                                     ErrorShape shape = OpenAiError);
Caller CallerOf(const http::Request& request);
// "chatcmpl-..." and the like; cannot be guessed, as it names a request that
// can be aborted.
std::string NewId(absl::string_view prefix);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_ROUTE_H_
