#include <fstream>
#include <string>

#include "coordinator/api/generate_summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/http/http_api_fixture.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

TEST_F(HttpApiTest, PathsAndMethods) {
  EXPECT_EQ(Get("/nope").status, 404);
  EXPECT_EQ(Get("/v1/chat/completions").status, 405);
  EXPECT_EQ(Get("/v1/models/toy").status, 200);
  EXPECT_EQ(Get("/v1/models/other").status, 404);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("process_cpu_seconds_total"));
  EXPECT_EQ(Post("/v1/completions", "{").status, 400);
  EXPECT_EQ(Post("/v1/completions", "[]").status, 400);
  const Parsed tokens =
      Parsed::parse(Post("/tokenize", R"({"prompt": "a"})").body);
  EXPECT_EQ(tokens["count"], 3);
}

TEST_F(HttpApiTest, TokensAreThoseOfAPromptOrAChat) {
  Post("/tokenize", R"({"messages": [{"role": "user", "content": "a"}],
      "add_generation_prompt": false})");
  ASSERT_EQ(generator_.asked.size(), 1);
  EXPECT_EQ(generator_.asked[0].chat().end(), v1::CHAT_END_NOTHING);
  const auto refused = [this](const std::string& path, const char* body) {
    const Parsed answer = Parsed::parse(Post(path, body).body);
    return answer["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(refused("/tokenize", "{}"), HasSubstr("prompt or messages"));
  EXPECT_THAT(refused("/tokenize",
                      R"({"prompt": "a", "chat_template_kwargs": {"b": 1}})"),
              HasSubstr("fields of a chat"));
  EXPECT_THAT(refused("/tokenize", R"({"prompt": "a", "x": 1})"),
              HasSubstr("does not know"));
  EXPECT_THAT(refused("/detokenize", R"({"tokens": [1], "x": 1})"),
              HasSubstr("does not know"));
  EXPECT_THAT(refused("/detokenize", R"({"tokens": [1], "model": "other"})"),
              HasSubstr("is not served"));
}

TEST_F(HttpApiTest, RequestsAreCountedByRouteAndStatus) {
  Get("/health");
  Get("/health");
  Get("/nope");
  Post("/v1/completions", "{");
  const std::string metrics = Get("/metrics").body;
  for (const char* line :
       {R"(espalier_http_requests_total{route="/health",status="200"} 2)",
        R"(espalier_http_requests_total{route="none",status="404"} 1)",
        R"(espalier_http_requests_total{route="/v1/completions",status="400"})",
        R"(espalier_http_request_duration_seconds_count{route="/health"} 2)"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
}

TEST_F(HttpApiTest, TheDescriptionHasEveryRouteAndWhatItFollows) {
  const Parsed description = Parsed::parse(Get("/openapi.json").body);
  const Parsed& paths = description["paths"];
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses",
        "/v1/messages", "/v1/messages/count_tokens", "/tokenize",
        "/detokenize"}) {
    ASSERT_TRUE(paths.contains(path)) << path;
    const Parsed& fields = paths[path]["post"]["requestBody"]["content"]
                                ["application/json"]["schema"]["properties"];
    EXPECT_TRUE(fields.contains("model")) << path;
    EXPECT_FALSE(fields.contains("truncate_prompt_tokens")) << path;
  }
  EXPECT_EQ(paths["/v1/models/{name}"]["get"]["parameters"][0]["name"], "name");
  EXPECT_EQ(paths["/health"]["get"]["security"], Parsed::array());
}

TEST_F(HttpApiTest, ReadinessIsNotHealth) {
  readiness_ = absl::UnavailableError("the verifier is away");
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/ready").status, 503);
  readiness_ = absl::OkStatus();
  EXPECT_EQ(Get("/ready").status, 200);
}

TEST_F(HttpApiTest, WithoutKeysWebPagesCannotCall) {
  EXPECT_EQ(Get("/v1/models", {{"Host", "127.0.0.1:8080"}}).status, 200);
  EXPECT_EQ(Get("/v1/models", {{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(Get("/v1/models",
                {{"Host", "localhost"}, {"Origin", "http://evil.example"}})
                .status,
            403);
  Allow({.allowed_origins = {"http://good.example"}});
  const http::Response response = Get(
      "/v1/models", {{"Host", "localhost"}, {"Origin", "http://good.example"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers[0].second, "http://good.example");
}

TEST_F(HttpApiTest, KeysAreReadAgainWhenTheirFileChanges) {
  const std::string path = ::testing::TempDir() + "/keys";
  std::ofstream(path) << "# of a\nkey-of-sixteen-bytes\n";
  auto keys = ApiKeys::ReadFile(path);
  ASSERT_TRUE(keys.ok()) << keys.status();
  Allow({.keys = *std::move(keys)});
  EXPECT_EQ(Get("/v1/models").status, 401);
  EXPECT_EQ(Get("/health").status, 200);
  const http::Headers bearer = {
      {"Authorization", "Bearer key-of-sixteen-bytes"}};
  EXPECT_EQ(Get("/v1/models", bearer).status, 200);
  EXPECT_EQ(Get("/v1/models", {{"x-api-key", "key-of-sixteen-bytes"}}).status,
            200);
  std::ofstream(path) << "another-key-of-another-size\n";
  EXPECT_EQ(Get("/v1/models", bearer).status, 401);
  std::ofstream(path) << "short\n";
  EXPECT_EQ(
      Get("/v1/models", {{"x-api-key", "another-key-of-another-size"}}).status,
      200);
  EXPECT_THAT(ApiKeys::ReadFile(path).status().message(),
              HasSubstr(":1: a key of 5 bytes"));
}

TEST_F(HttpApiTest, KeysThatAreReadAgainHoldWhenTheyAreInstalled) {
  const std::string path = ::testing::TempDir() + "/reloaded_keys";
  std::ofstream(path) << "key-of-sixteen-bytes\n";
  auto read = ApiKeys::ReadFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  const std::shared_ptr<ApiKeys> keys = *std::move(read);
  std::ofstream(path) << "another-key-of-another-size\n";
  const auto install = keys->ReadAgain();
  ASSERT_TRUE(install.ok()) << install.status();
  std::ofstream(path) << "short\n";
  EXPECT_THAT(keys->ReadAgain().status().message(),
              HasSubstr(":1: a key of 5 bytes"));
  (*install)();
  EXPECT_TRUE(keys->Find("another-key-of-another-size").has_value());
  EXPECT_FALSE(keys->Find("key-of-sixteen-bytes").has_value());
}

TEST_F(HttpApiTest, WithoutNumbersOfSpeculationAnswersHaveNone) {
  generator_.script = {FakeGenerator::Last()};
  const std::string body = R"({"prompt": "a"})";
  Parsed answer = Parsed::parse(Post("/v1/completions", body).body);
  EXPECT_EQ(answer["espalier"]["rounds"], 2);
  EXPECT_TRUE(answer["usage"].contains("completion_tokens_details"));
  HideRounds(*generator_.script[0].mutable_summary());
  answer = Parsed::parse(Post("/v1/completions", body).body);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  EXPECT_FALSE(answer["usage"].contains("completion_tokens_details"));
  for (const char* field : {"tau", "rounds", "drafters"}) {
    EXPECT_FALSE(answer["espalier"].contains(field)) << field;
  }
  EXPECT_EQ(answer["espalier"]["timing"].size(), 2u);
}

TEST_F(HttpApiTest, AKeysNameIsItsTenant) {
  const std::string path = ::testing::TempDir() + "/named_keys";
  std::ofstream(path) << "acme key-of-sixteen-bytes\nkey-without-any-name\n";
  auto keys = ApiKeys::ReadFile(path);
  ASSERT_TRUE(keys.ok()) << keys.status();
  Allow({.keys = *std::move(keys)});
  generator_.script = {FakeGenerator::Last()};
  for (const std::string key :
       {"key-of-sixteen-bytes", "key-without-any-name"}) {
    const http::Response response =
        Ask({.method = "POST",
             .path = "/v1/completions",
             .headers = {{"x-api-key", key}, {"X-Tenant", "said"}},
             .body = R"({"prompt": "a"})"});
    EXPECT_EQ(response.status, 200) << response.body;
  }
  ASSERT_EQ(generator_.callers.size(), 2u);
  EXPECT_EQ(generator_.callers[0].tenant, "acme");
  EXPECT_EQ(generator_.callers[1].tenant, "");
  EXPECT_EQ(generator_.callers[1].stated_tenant, "said");
}

TEST(ApiKeysTest, ANameHasAKeyBehindIt) {
  const std::string path = ::testing::TempDir() + "/bad_keys";
  std::ofstream(path) << "acme\tshort\n";
  EXPECT_THAT(ApiKeys::ReadFile(path).status().message(),
              HasSubstr(":1: a key of 5 bytes"));
  std::ofstream(path) << "acme key-of-sixteen bytes\n";
  EXPECT_THAT(ApiKeys::ReadFile(path).status().message(),
              HasSubstr(":1: a key is printable ASCII without spaces"));
  std::ofstream(path) << std::string(200, 'n') << " key-of-sixteen-bytes\n";
  EXPECT_THAT(ApiKeys::ReadFile(path).status().message(),
              HasSubstr(":1: the name has"));
}

}  // namespace
}  // namespace espalier::coordinator
