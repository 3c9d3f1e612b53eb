#include "coordinator/http/http_api.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/generation_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/http/http_api_fixture.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(HttpApiTest, AWholeChat) {
  generator_.script = {FakeGenerator::Text("Hel"), FakeGenerator::Text("lo"),
                       FakeGenerator::Last()};
  const Parsed body = PostChat("");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "toy");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["total_tokens"], 9);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  const Parsed& details = body["usage"]["completion_tokens_details"];
  EXPECT_EQ(details["accepted_prediction_tokens"], 2);
  EXPECT_EQ(details["rejected_prediction_tokens"], 4);
  EXPECT_EQ(body["espalier"]["tau"], 2.0);
  EXPECT_EQ(body["espalier"]["drafters"][0]["share"], 0.5);
  ASSERT_EQ(generator_.asked.size(), 1);
  EXPECT_EQ(generator_.asked[0].chat().messages(0).content(), "hi");
  EXPECT_EQ(generator_.asked[0].temperature(), 1);
  EXPECT_EQ(generator_.asked[0].request_id(), body["id"]);
}

TEST_F(HttpApiTest, AStreamedChatEndsWithItsUsage) {
  generator_.script = {FakeGenerator::Text("Hello"),
                       FakeGenerator::Last(0, v1::FINISH_REASON_LENGTH)};
  const http::Response response =
      Post("/v1/chat/completions",
           R"({"messages": [{"role": "user", "content": "hi"}], "stream": true,
          "stream_options": {"include_usage": true}})");
  EXPECT_THAT(response.content_type, HasSubstr("text/event-stream"));
  EXPECT_THAT(response.body, HasSubstr(R"("delta":{"content":"Hello"})"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(response.body, HasSubstr(R"("choices":[],"usage":{"prompt)"));
  EXPECT_THAT(response.body, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(HttpApiTest, AnErrorBeforeTheFirstTokenHasItsStatus) {
  generator_.end = WithReason(
      WithRetryAfter(absl::ResourceExhaustedError("full"), absl::Seconds(2.5)),
      "QUEUE_FULL");
  const http::Response response =
      Post("/v1/completions", R"({"prompt": "a", "stream": true})");
  EXPECT_EQ(response.status, 429);
  EXPECT_THAT(response.headers,
              ElementsAre(std::pair("Retry-After", "3"),
                          std::pair("Retry-After-Ms", "2500")));
  EXPECT_EQ(Parsed::parse(response.body)["error"]["code"], "QUEUE_FULL");
}

TEST_F(HttpApiTest, AnErrorInAStreamIsItsLastEvent) {
  generator_.script = {FakeGenerator::Text("Hello")};
  generator_.end = absl::UnavailableError("the verifier was lost");
  const http::Response response =
      Post("/v1/completions", R"({"prompt": "a", "stream": true})");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr(R"({"error":{"message":"the verifier)"));
}

TEST_F(HttpApiTest, CompletionsHaveACallForEachPrompt) {
  generator_.script = {FakeGenerator::Text("x"), FakeGenerator::Last(0),
                       FakeGenerator::Last(1)};
  const Parsed body = Parsed::parse(
      Post("/v1/completions",
           R"({"prompt": ["a", [1, 2]], "n": 2, "seed": -1, "stop": "s"})")
          .body);
  ASSERT_EQ(body["choices"].size(), 4);
  EXPECT_EQ(body["choices"][2]["text"], "x");
  EXPECT_EQ(body["choices"][3]["index"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(body["usage"]["completion_tokens"], 16);
  ASSERT_EQ(generator_.asked.size(), 2);
  EXPECT_EQ(generator_.asked[0].prompt(), "a");
  EXPECT_THAT(generator_.asked[1].token_ids().ids(), ElementsAre(1, 2));
  EXPECT_EQ(generator_.asked[1].seed(), UINT64_MAX);
  EXPECT_EQ(generator_.asked[1].max_tokens(), 16);
  EXPECT_THAT(generator_.asked[1].stop(), ElementsAre("s"));
}

TEST_F(HttpApiTest, FieldsAreFollowed) {
  PostChat(R"(, "top_k": -1, "min_p": 0.5, "n": 2, "logit_bias": {"3": -100},
      "max_completion_tokens": 9, "stop_token_ids": [1], "bad_words": ["b"],
      "chat_template_kwargs": {"a": true}, "guided_choice": ["x", "y"],
      "logprobs": true, "top_logprobs": 2, "temperature": 1e-6, "user": "u",
      "espalier": {"drafters": ["d"], "max_nodes": 3, "strategy": "union"})");
  ASSERT_EQ(generator_.asked.size(), 1);
  const v1::GenerateRequest& asked = generator_.asked[0];
  EXPECT_EQ(asked.top_k(), 0);
  EXPECT_EQ(asked.min_p(), 0.5f);
  EXPECT_EQ(asked.logit_bias().at(3), -100);
  EXPECT_EQ(asked.max_tokens(), 9);
  EXPECT_EQ(asked.chat().template_args(), R"({"a":true})");
  EXPECT_THAT(asked.structured_output().choice().texts(),
              ElementsAre("x", "y"));
  EXPECT_EQ(asked.logprobs(), 2);
  EXPECT_EQ(asked.temperature(), 0);
  EXPECT_THAT(asked.speculation().drafters(), ElementsAre("d"));
  EXPECT_EQ(asked.speculation().max_nodes(), 3);
}

TEST_F(HttpApiTest, ASchemaKeepsTheOrderOfItsKeys) {
  PostChat(R"(, "response_format": {"type": "json_schema", "json_schema":
      {"name": "s", "schema": {"z": 1, "a": 2}}})");
  EXPECT_EQ(generator_.asked[0].structured_output().json_schema(),
            R"({"z":1,"a":2})");
}

TEST_F(HttpApiTest, FieldsAreRefusedByName) {
  EXPECT_EQ(Refused(R"(, "suffix": "x")"), "suffix");
  EXPECT_EQ(Refused(R"(, "audio": {})"), "audio");
  EXPECT_EQ(Refused(R"(, "audio": null)"), "");
  EXPECT_EQ(Refused(R"(, "n": 1.5)"), "n");
  EXPECT_EQ(Refused(R"(, "stream": 1)"), "stream");
  EXPECT_EQ(Refused(R"(, "max_tokens": 0)"), "max_tokens");
  EXPECT_EQ(Refused(R"(, "max_tokens": 1, "max_completion_tokens": 2)"),
            "max_completion_tokens");
  EXPECT_EQ(Refused(R"(, "top_logprobs": 2)"), "top_logprobs");
  EXPECT_EQ(Refused(R"(, "espalier": {"x": 2})"), "espalier.x");
  EXPECT_EQ(Refused(R"(, "guided_regex": "a", "guided_json": {})"),
            "guided_json");
  EXPECT_EQ(Refused(R"(, "response_format": {"type": "x"})"),
            "response_format.type");
  EXPECT_TRUE(generator_.asked.size() == 1);
}

// Each costs more than its bytes.
TEST_F(HttpApiTest, ValuesAndMessagesAreBounded) {
  std::string many = R"({"messages": [)";
  for (int i = 0; i < 5000; ++i) many += R"({"role":"user","content":""},)";
  many.back() = ']';
  EXPECT_THAT(Post("/v1/chat/completions", many + "}").body,
              HasSubstr("messages: 5000 entries, limit 4096"));
  std::string lists = R"({"a": [)";
  for (int i = 0; i < (1 << 20); ++i) lists += "[],";
  EXPECT_THAT(Post("/v1/completions", lists).body, HasSubstr("limit 1048576"));
}

TEST_F(HttpApiTest, MessagesMayHavePartsOfText) {
  Post("/v1/chat/completions", R"({"messages": [{"role": "user", "content":
      [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  EXPECT_EQ(generator_.asked[0].chat().messages(0).content(), "a\nb");
  const Parsed body = Parsed::parse(Post("/v1/chat/completions", R"({"messages":
      [{"role": "user", "content": [{"type": "image_url"}]}]})")
                                        .body);
  EXPECT_EQ(body["error"]["param"], "messages[0].content[0].type");
}

TEST_F(HttpApiTest, ErrorsOfOurApiNameFieldsAsOverHttp) {
  generator_.end = FieldError("chat.messages[0].role", "is odd");
  const Parsed body = PostChat("");
  EXPECT_EQ(body["error"]["param"], "messages[0].role");
  EXPECT_EQ(body["error"]["message"], "messages[0].role: is odd");
}

TEST_F(HttpApiTest, ErrorsOfOurApiNameTheFieldThatTheClientHasSet) {
  const auto param = [this](const char* own, const char* more) {
    generator_.end = FieldError(own, "is odd");
    const Parsed error = PostChat(more)["error"];
    EXPECT_EQ(error["message"],
              absl::StrCat(error["param"].get<std::string>(), ": is odd"));
    EXPECT_EQ(error["code"], "INVALID_FIELD");
    return error["param"].get<std::string>();
  };
  EXPECT_EQ(param("logprobs", R"(, "logprobs": true, "top_logprobs": 21)"),
            "top_logprobs");
  EXPECT_EQ(param("structured_output.regex", R"(, "guided_regex": "[")"),
            "guided_regex");
  EXPECT_EQ(param("structured_output.regex",
                  R"(, "structured_outputs": {"regex": "["})"),
            "structured_outputs.regex");
  EXPECT_EQ(param("structured_output.json_schema",
                  R"(, "response_format": {"type": "json_schema",
                     "json_schema": {"schema": {}}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(param("stop[1]", R"(, "stop": ["a", ""])"), "stop[1]");
}

TEST_F(HttpApiTest, AnAnswerMayGoOnWithTheLastMessage) {
  PostChat(R"(, "continue_final_message": true, "add_generation_prompt": false,
           "skip_special_tokens": false)");
  EXPECT_EQ(generator_.asked[0].chat().end(), v1::CHAT_END_CONTINUE);
  EXPECT_TRUE(generator_.asked[0].show_special_tokens());
  PostChat(R"(, "add_generation_prompt": false)");
  EXPECT_EQ(generator_.asked[1].chat().end(), v1::CHAT_END_NOTHING);
}

TEST_F(HttpApiTest, AResponseRepeatsItsTools) {
  generator_.script = {FakeGenerator::Text("x"), FakeGenerator::Last()};
  const Parsed tools = {
      {{"type", "function"}, {"name", "f"}, {"parameters", Parsed::object()}}};
  const Parsed body = Parsed::parse(
      Post("/v1/responses",
           Parsed{{"input", "a"}, {"tools", tools}, {"tool_choice", "auto"}}
               .dump())
          .body);
  EXPECT_EQ(body["tools"], tools);
  EXPECT_EQ(body["tool_choice"], "auto");
}

// Tables say which fields are refused, and documents have the tables.
TEST_F(HttpApiTest, WhatTheTablesRefuseIsRefusedByName) {
  int num_refused = 0;
  for (const FieldTable& fields : {ChatPromptFields(), ChatFields(),
                                   GenerationFields(), ConstraintFields()}) {
    for (const Field& field : fields) {
      if (field.follow != nullptr) continue;
      ++num_refused;
      EXPECT_EQ(Refused(absl::StrCat(", \"", field.name, "\": 1")), field.name);
    }
  }
  EXPECT_GT(num_refused, 10);
}

}  // namespace
}  // namespace espalier::coordinator
