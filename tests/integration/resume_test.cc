// A coordinator dies in mid-stream, and the command goes on with the text at
// the next one. The text must be the one without the fault, whatever ends it,
// constrains it or is returned with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/cli/inference_client.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/default_model.h"

namespace espalier::testing {
namespace {

using cli::Answer;

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Cluster::Options options = {
        .model = Model(), .drafters = Drafters(), .coordinators = 2};
    cluster_.emplace(std::move(options));
    cluster_->AwaitReady();
    auto client = cli::InferenceClient::Create(cluster_->Addresses());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  virtual std::string Model() const { return CharModelFolder(); }
  virtual std::vector<DrafterSpec> Drafters() const {
    return LookupAndBigram();
  }

  // Runs a request; `on_text` sees the text of output 0 as it comes.
  std::vector<Answer> Run(
      const v1::GenerateRequest& request,
      const std::function<void()>& on_text = [] {}) {
    auto answers = client_->GenerateAll(
        request, {.timeout = absl::Minutes(2), .patience = absl::Minutes(1)},
        [&](const std::string&) {
          on_text();
          return true;
        });
    EXPECT_TRUE(answers.ok()) << answers.status();
    return answers.ok() ? *std::move(answers) : std::vector<Answer>(1);
  }

  // Kills the first coordinator when output 0 has had some messages, and
  // starts it again when the request is done.
  std::vector<Answer> RunWithDeath(const v1::GenerateRequest& request) {
    int num_pieces = 0;
    absl::Time last = absl::Now();
    absl::Duration longest;
    const auto answers = Run(request, [&] {
      if (num_pieces++ == 2) cluster_->Kill("coordinator");
      if (num_pieces > 1) longest = std::max(longest, absl::Now() - last);
      last = absl::Now();
    });
    RecordProperty("longest_gap_ms",
                   static_cast<int>(absl::ToInt64Milliseconds(longest)));
    std::cout << "longest gap " << longest << "\n";
    cluster_->Start("coordinator");
    cluster_->AwaitReady();
    return answers;
  }

  void ExpectSameAfterADeath(const v1::GenerateRequest& request) {
    const auto whole = Run(request);
    std::vector<Answer> resumed = RunWithDeath(request);
    // The whole answer may have been on its way before its server was dead.
    for (int i = 0; i < 5 && resumed.front().resumptions == 0; ++i) {
      resumed = RunWithDeath(request);
    }
    ASSERT_EQ(resumed.size(), whole.size());
    EXPECT_EQ(whole.front().resumptions, 0);
    EXPECT_EQ(resumed.front().resumptions, 1);
    for (size_t i = 0; i < whole.size(); ++i) ExpectEqual(resumed[i], whole[i]);
  }

  static void ExpectEqual(const Answer& resumed, const Answer& whole) {
    EXPECT_EQ(resumed.text, whole.text);
    EXPECT_EQ(resumed.token_ids, whole.token_ids);
    const v1::GenerateSummary& summary = resumed.summary;
    EXPECT_EQ(summary.finish_reason(), whole.summary.finish_reason());
    EXPECT_EQ(summary.matched_stop(), whole.summary.matched_stop());
    EXPECT_EQ(summary.seed(), whole.summary.seed());
    EXPECT_EQ(summary.usage().prompt_tokens(),
              whole.summary.usage().prompt_tokens());
    EXPECT_EQ(summary.usage().completion_tokens(),
              whole.summary.usage().completion_tokens());
    ASSERT_EQ(resumed.logprobs.size(), whole.logprobs.size());
    for (size_t i = 0; i < whole.logprobs.size(); ++i) {
      EXPECT_EQ(resumed.logprobs[i].SerializeAsString(),
                whole.logprobs[i].SerializeAsString());
    }
  }

  std::optional<Cluster> cluster_;
  std::unique_ptr<cli::InferenceClient> client_;
};

TEST_F(ResumeTest, PlainTextAtEveryTemperature) {
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {
    ExpectSameAfterADeath(CharRequest(temperature, 5));
  }
}

TEST_F(ResumeTest, PenaltiesLogprobsAndSeveralOutputs) {
  v1::GenerateRequest request = CharRequest(1.0f, 11);
  request.set_n(2);
  request.set_logprobs(3);
  request.set_frequency_penalty(0.4f);
  request.set_presence_penalty(0.2f);
  request.set_repetition_penalty(1.2f);
  request.set_min_tokens(150);
  request.add_bad_words("th");
  ExpectSameAfterADeath(request);
}

// What follows the resumed tokens is searched together with them.
TEST_F(ResumeTest, StopStrings) {
  v1::GenerateRequest request = CharRequest(0.7f, 3);
  const std::string whole = Run(request).front().text;
  for (const bool include : {false, true}) {
    request.clear_stop();
    request.add_stop(whole.substr(100, 12));
    request.set_include_stop_str_in_output(include);
    ExpectSameAfterADeath(request);
  }
}

// At every place where a connection can break, also within a stop string, after
// the last token, and where one output has ended and the other has not.
TEST_F(ResumeTest, EveryPlace) {
  v1::GenerateRequest request = CharRequest(0.7f, 3, 60);
  const std::string text = Run(request).front().text;
  request.add_stop(text.substr(40, 5));
  std::map<size_t, std::string> shown;  // by the number of tokens
  size_t num_tokens = 0;
  std::string so_far;
  const Generated whole =
      Generate(cluster_->stub(), Plain(request),
               [&](const v1::GenerateResponse& message, grpc::ClientContext&) {
                 num_tokens += static_cast<size_t>(message.token_ids_size());
                 so_far += message.text();
                 shown[num_tokens] = so_far;
               });
  ASSERT_TRUE(whole.status.ok());
  ASSERT_GT(shown.size(), 5u);
  for (const auto& [at, text_before] : shown) {
    v1::GenerateRequest rest = request;
    rest.mutable_resumption()->add_outputs()->mutable_token_ids()->Assign(
        whole.token_ids.begin(), whole.token_ids.begin() + at);
    const Generated after = Generate(cluster_->stub(), rest);
    ASSERT_TRUE(after.status.ok()) << after.status.error_message();
    EXPECT_EQ(text_before + after.text, whole.text) << at;
    EXPECT_EQ(at + after.token_ids.size(), whole.token_ids.size());
    EXPECT_EQ(after.summary.matched_stop(), whole.summary.matched_stop());
    EXPECT_EQ(after.summary.usage().completion_tokens(),
              whole.token_ids.size());
  }
}

TEST_F(ResumeTest, AnotherPromptIsRefused) {
  v1::GenerateRequest request = CharRequest(0.7f, 3, 60);
  std::optional<uint64_t> origin;
  Generate(cluster_->stub(), request,
           [&](const v1::GenerateResponse& message, grpc::ClientContext&) {
             if (message.has_origin()) origin = message.origin();
           });
  ASSERT_TRUE(origin.has_value());
  v1::Resumption& resumption = *request.mutable_resumption();
  resumption.add_outputs()->add_token_ids(3);
  resumption.set_origin(*origin);
  EXPECT_TRUE(Generate(cluster_->stub(), request).status.ok());
  request.set_prompt(request.prompt() + "?");
  const grpc::Status status = Generate(cluster_->stub(), request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_details().find("OTHER_ORIGIN"), std::string::npos);
}

TEST_F(ResumeTest, TokensAfterTheEndAreRefused) {
  v1::GenerateRequest request = CharRequest(0.7f, 3, 60);
  const auto whole = Generate(cluster_->stub(), request);
  request.add_stop(whole.text.substr(0, 2));
  request.mutable_resumption()->add_outputs()->mutable_token_ids()->Assign(
      whole.token_ids.begin(), whole.token_ids.end());
  const grpc::Status status = Generate(cluster_->stub(), request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              ::testing::HasSubstr("resumption.outputs[0].token_ids"));
}

class ResumeDefaultModelTest : public ResumeTest {
 protected:
  void SetUp() override {
    if (!HasDefaultModel()) {
      GTEST_SKIP() << "no default model: run deploy/setup.sh";
    }
    ResumeTest::SetUp();
  }
  std::string Model() const override { return DefaultModelFolder(); }
  std::vector<DrafterSpec> Drafters() const override {
    return {{.name = "lookup", .type = "prompt_lookup"},
            {.name = "grammar", .type = "grammar"}};
  }
};

// The grammar's state is that of the whole output.
TEST_F(ResumeDefaultModelTest, JsonWithASchema) {
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Describe a programmer in JSON: name, age, languages.");
  request.mutable_structured_output()->set_json_schema(
      R"({"type":"object","properties":{"name":{"type":"string"},)"
      R"("age":{"type":"integer"},"languages":{"type":"array","items":)"
      R"({"type":"string"},"minItems":3,"maxItems":3}},)"
      R"("required":["name","age","languages"],)"
      R"("additionalProperties":false})");
  request.set_max_tokens(80);
  request.set_seed(4);
  request.set_n(2);
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {
    request.set_temperature(temperature);
    ExpectSameAfterADeath(request);
  }
}

}  // namespace
}  // namespace espalier::testing
