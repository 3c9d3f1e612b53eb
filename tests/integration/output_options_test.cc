// What a request may ask of its answer, through real processes: stops, several
// outputs, log-probabilities, the prompt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

// One output of an answer, from its messages.
struct Output {
  std::vector<uint32_t> token_ids;
  std::string text;
  std::vector<std::string> logprobs;  // serialized
  v1::ReturnedPrompt prompt;
  v1::GenerateSummary summary;
  size_t longest_message = 0;  // tokens
};

class OutputOptionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster(
        {.model = CharModelFolder(), .drafters = LookupAndBigram()});
    cluster_->AwaitReady();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  static std::map<uint32_t, Output> RunAll(const v1::GenerateRequest& request) {
    std::map<uint32_t, Output> outputs;
    const Generated done = Generate(
        cluster_->stub(), request,
        [&](const v1::GenerateResponse& message, grpc::ClientContext&) {
          Output& out = outputs[message.index()];
          out.token_ids.insert(out.token_ids.end(), message.token_ids().begin(),
                               message.token_ids().end());
          out.longest_message =
              std::max<size_t>(out.longest_message, message.token_ids_size());
          out.text += message.text();
          for (const auto& position : message.logprobs()) {
            out.logprobs.push_back(position.SerializeAsString());
          }
          if (message.has_prompt()) out.prompt = message.prompt();
          if (message.has_summary()) out.summary = message.summary();
        });
    EXPECT_TRUE(done.status.ok()) << done.status.error_message();
    return outputs;
  }
  static Output Run(const v1::GenerateRequest& request) {
    return RunAll(request)[0];
  }

  static Cluster* cluster_;
};
Cluster* OutputOptionsTest::cluster_ = nullptr;

// A token is a character here, so every stop string spans tokens; a round emits
// several tokens, so many end inside a burst.
TEST_F(OutputOptionsTest, AStopStringEndsTextTokensAndUsageAtOnce) {
  int bursts = 0;
  for (uint64_t seed : {1, 2, 3}) {
    const v1::GenerateRequest request = CharRequest(0.7f, seed, 60);
    const std::string whole = Run(Plain(request)).text;
    ASSERT_EQ(whole.size(), 60u);
    for (size_t at = 0; at + 4 < whole.size(); at += 5) {
      const std::string stop = whole.substr(at, 1 + at % 4);
      const size_t found = whole.find(stop);
      for (bool include : {false, true}) {
        v1::GenerateRequest stopped = request;
        stopped.add_stop(stop);
        stopped.set_include_stop_str_in_output(include);
        std::string so_far;
        size_t longest = 0;
        const std::string expected =
            whole.substr(0, found + (include ? stop.size() : 0));
        const Generated done = Generate(
            cluster_->stub(), stopped,
            [&](const v1::GenerateResponse& message, grpc::ClientContext&) {
              so_far += message.text();
              longest = std::max<size_t>(longest, message.token_ids_size());
              EXPECT_TRUE(absl::StartsWith(expected, so_far))
                  << "a character too many: \"" << so_far << '"';
            });
        ASSERT_TRUE(done.status.ok()) << done.status.error_message();
        EXPECT_EQ(done.text, expected);
        const size_t num_tokens = found + stop.size();
        EXPECT_EQ(done.token_ids.size(), num_tokens) << "tokens after the stop";
        const v1::Usage& usage = done.summary.usage();
        EXPECT_EQ(usage.completion_tokens(), num_tokens);
        EXPECT_EQ(usage.total_tokens(),
                  usage.prompt_tokens() + usage.completion_tokens());
        EXPECT_EQ(done.summary.matched_stop(), stop);
        EXPECT_FALSE(done.summary.has_matched_stop_token_id());
        EXPECT_EQ(done.summary.finish_reason(), v1::FINISH_REASON_STOP);
        bursts += longest > 1;
      }
    }
  }
  EXPECT_GT(bursts, 5) << "rounds emit several tokens";
}

TEST_F(OutputOptionsTest, LimitsAreExact) {
  for (bool plain : {false, true}) {
    v1::GenerateRequest request = CharRequest(0.7f, 4, 1000000);
    if (plain) request = Plain(request);
    grpc::ClientContext context;
    v1::GetModelInfoResponse info;
    ASSERT_TRUE(cluster_->stub().GetModelInfo(&context, {}, &info).ok());
    const Output full = Run(request);
    EXPECT_EQ(full.summary.usage().total_tokens(), info.max_context());
    EXPECT_EQ(full.summary.finish_reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(full.summary.warnings_size(), 1);
    for (uint32_t limit : {1u, 2u, 3u, 17u}) {
      request.set_max_tokens(limit);
      EXPECT_EQ(Run(request).token_ids.size(), limit);
    }
    // The character that comes first stops nothing before its time.
    request.set_max_tokens(40);
    request.add_stop(full.text.substr(0, 1));
    request.set_min_tokens(5);
    const Output late = Run(request);
    EXPECT_GT(late.token_ids.size(), 5u);
    EXPECT_EQ(late.summary.usage().completion_tokens(), late.token_ids.size());
  }
}

TEST_F(OutputOptionsTest, OutputIIsTheTextOfSeedPlusI) {
  v1::GenerateRequest request = CharRequest(1.0f, 11, 40);
  request.set_logprobs(1);
  request.set_n(4);
  const auto outputs = RunAll(request);
  ASSERT_EQ(outputs.size(), 4u);
  request.clear_n();
  for (const auto& [index, output] : outputs) {
    request.set_seed(11 + index);
    EXPECT_EQ(output.summary.seed(), 11 + index);
    const Output alone = Run(Plain(request));
    EXPECT_EQ(output.token_ids, alone.token_ids);
    EXPECT_EQ(output.text, alone.text);
    EXPECT_EQ(output.logprobs, alone.logprobs);
    EXPECT_EQ(output.summary.usage().prompt_tokens(),
              alone.summary.usage().prompt_tokens());
    EXPECT_EQ(output.summary.usage().completion_tokens(),
              alone.summary.usage().completion_tokens());
  }
  EXPECT_NE(outputs.at(0).text, outputs.at(1).text);
}

TEST_F(OutputOptionsTest, LogprobsAreThoseOfPlainDecodingToTheBit) {
  for (float temperature : {0.0f, 1.0f}) {
    for (uint64_t seed : {1, 2, 3}) {
      v1::GenerateRequest request = CharRequest(temperature, seed, 60);
      request.set_logprobs(5);
      request.set_prompt_logprobs(3);
      request.set_echo(true);
      const Output plain = Run(Plain(request));
      ASSERT_EQ(plain.logprobs.size(), 60u);
      EXPECT_EQ(plain.prompt.text(), request.prompt());
      EXPECT_EQ(plain.prompt.token_ids_size(),
                plain.prompt.logprobs_size() + 1);
      for (const char* drafter : {"lookup", "bigram"}) {
        v1::GenerateRequest drafted = request;
        drafted.mutable_speculation()->add_drafters(drafter);
        const Output out = Run(drafted);
        EXPECT_EQ(out.token_ids, plain.token_ids);
        EXPECT_EQ(out.logprobs, plain.logprobs);
        EXPECT_EQ(out.prompt.SerializeAsString(),
                  plain.prompt.SerializeAsString());
      }
    }
  }
}

// The log-probabilities of a prompt are those that its tokens had as output.
TEST_F(OutputOptionsTest, LogprobsOfAPromptAreThoseOfTheSameTextAsOutput) {
  v1::GenerateRequest request = CharRequest(0, 1, 30);
  request.set_logprobs(2);
  request.set_echo(true);
  const Output output = Run(request);
  v1::GenerateRequest again = CharRequest(0, 1, 1);
  for (uint32_t id : output.prompt.token_ids()) {
    again.mutable_token_ids()->add_ids(id);
  }
  for (uint32_t id : output.token_ids) again.mutable_token_ids()->add_ids(id);
  again.set_prompt_logprobs(2);
  const Output reread = Run(again);
  ASSERT_GE(reread.prompt.logprobs_size(), 30);
  const int before = reread.prompt.logprobs_size() - 30;
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(reread.prompt.logprobs(before + i).SerializeAsString(),
              output.logprobs[i]);
  }
}

TEST_F(OutputOptionsTest, WhatIsOutOfRangeIsRefusedByName) {
  const std::vector<std::pair<std::string, void (*)(v1::GenerateRequest&)>>
      changes = {
          {"n", [](auto& r) { r.set_n(0); }},
          {"n", [](auto& r) { r.set_n(33); }},
          {"logprobs", [](auto& r) { r.set_logprobs(21); }},
          {"prompt_logprobs", [](auto& r) { r.set_prompt_logprobs(~0u); }}};
  for (const auto& [field, change] : changes) {
    v1::GenerateRequest request = CharRequest(0, 1, 3);
    change(request);
    const Generated done = Generate(cluster_->stub(), request);
    EXPECT_EQ(done.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(absl::StartsWith(done.status.error_message(), field + ": "))
        << done.status.error_message();
  }
}

}  // namespace
}  // namespace espalier::testing
