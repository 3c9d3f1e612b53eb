// The HTTP API over a scripted generator.
#ifndef ESPALIER_TESTS_COORDINATOR_HTTP_HTTP_API_FIXTURE_H_
#define ESPALIER_TESTS_COORDINATOR_HTTP_HTTP_API_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "common/tokenizer/tokenizer.h"
#include "coordinator/http/http_api.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/http/fake_generator.h"

namespace espalier::coordinator {

using Parsed = nlohmann::json;

class HttpApiTest : public ::testing::Test {
 protected:
  HttpApiTest();

  void Allow(HttpApi::Access access) {
    api_ = std::make_unique<HttpApi>(
        ApiContext{.generator = &generator_,
                   .model = &model_,
                   .verifier_info = [] { return std::nullopt; },
                   .readiness = [this] { return readiness_; },
                   .metrics = registry_},
        std::move(access));
  }

  http::Response Ask(http::Request request) {
    return ReadAnswer(*api_->Handle(std::move(request), [] {}));
  }
  http::Response Get(const std::string& path, http::Headers headers = {}) {
    return Ask({.method = "GET", .path = path, .headers = std::move(headers)});
  }
  http::Response Post(const std::string& path, const std::string& body) {
    return Ask({.method = "POST", .path = path, .body = body});
  }
  Parsed PostChat(const std::string& more) {
    const std::string body =
        R"({"messages": [{"role": "user", "content": "hi"}])" + more + "}";
    return Parsed::parse(Post("/v1/chat/completions", body).body);
  }
  // The field that an error names.
  std::string Refused(const std::string& more) {
    const Parsed body = PostChat(more);
    return body.contains("error") ? body["error"]["param"].get<std::string>()
                                  : "";
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ServedModel model_;
  absl::Status readiness_;
  const std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  FakeGenerator generator_;
  std::unique_ptr<HttpApi> api_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_HTTP_HTTP_API_FIXTURE_H_
