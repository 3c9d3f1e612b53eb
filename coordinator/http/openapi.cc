// /openapi.json: the routes and their fields, for programs that make clients.
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

// Fields that are refused are left out: who sends one is told why.
Json BodySchema(const BodyFields& tables) {
  Json properties = Json::object();
  for (const FieldTable& table : tables) {
    for (const Field& field : table) {
      const std::string name(field.name);
      if (field.follow == nullptr || properties.contains(name)) continue;
      properties[name] = {{"description", std::string(field.meaning)}};
    }
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

Json Answers(const Route& route) {
  Json answers = {
      {"200", {{"description", "the answer"}}},
      {"default",
       {{"description", "an error"},
        {"content",
         {{"application/json", {{"schema", {{"type", "object"}}}}}}}}}};
  if (route.needs_key) {
    answers["401"] = {{"description", "the key is missing or unknown"}};
  }
  return answers;
}

// "GET", "/v1/models/{model}" -> "getV1ModelsModel".
std::string OperationId(const Route& route, absl::string_view path) {
  std::string id = absl::StrContains(route.method, "GET") ? "get" : "post";
  bool begins = true;
  for (const char letter : path) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(letter))) {
      begins = true;
      continue;
    }
    id += begins ? absl::ascii_toupper(static_cast<unsigned char>(letter))
                 : letter;
    begins = false;
  }
  return id;
}

Json Operation(const Route& route, const std::string& path) {
  Json operation = {{"operationId", OperationId(route, path)},
                    {"summary", route.summary},
                    {"responses", Answers(route)}};
  if (absl::EndsWith(path, "}")) {
    operation["parameters"] = Json::array({{{"name", "name"},
                                            {"in", "path"},
                                            {"required", true},
                                            {"schema", {{"type", "string"}}}}});
  }
  if (!route.fields.empty()) {
    operation["requestBody"] = {
        {"required", true},
        {"content",
         {{"application/json", {{"schema", BodySchema(route.fields)}}}}}};
  }
  if (!route.needs_key) operation["security"] = Json::array();
  return operation;
}

Json Description(const Routes& routes) {
  Json paths = Json::object();
  for (const Route& route : routes) {
    const std::string path =
        absl::EndsWith(route.path, "/") && route.path != "/"
            ? absl::StrCat(route.path, "{name}")
            : route.path;
    const char* method = route.method == "GET" ? "get" : "post";
    paths[path][method] = Operation(route, path);
  }
  return {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Espalier"}, {"version", std::string(Version())}}},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
          {"key",
           {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}}}}},
      {"security", Json::array({{{"bearer", Json::array()}},
                                {{"key", Json::array()}},
                                Json::object()})}};
}

}  // namespace

void AddOpenApiRoute(Routes& routes) {
  routes.push_back({.method = "GET",
                    .path = "/openapi.json",
                    .handle = {},
                    .needs_key = false,
                    .summary = "this description"});
  routes.back().handle = [body = ToText(Description(routes))](
                             const http::Request&, const http::Wake&) {
    return Answered(http::Response{.body = body});
  };
}

}  // namespace espalier::coordinator
