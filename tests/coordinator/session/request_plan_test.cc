#include "coordinator/session/request_plan.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/speculation/request_errors.h"
#include "coordinator/merge/merge_policies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequestPlanTest : public testing::Test {
 protected:
  RequestPlanTest() {
    policies_["budgeted"] = NewBudgetedMerge();
    policies_["single"] = NewSingleMerge();
    policies_["union"] = NewUnionMerge();
    request_.request_id = "r";
    request_.prompt = {1, 2, 3};
  }

  absl::StatusOr<RequestPlan> Plan() {
    VerifierInfo verifier;
    verifier.model = {.name = "toy",
                      .vocab_size = 50,
                      .weights_fingerprint = weights_fingerprint_};
    verifier.max_context = 10;
    verifier.max_tree_nodes = 32;
    verifier.rules = {"walk", "plain", "trv"};
    verifier.distribution_rules = {"trv"};
    verifier.eos_token_ids = {0, 7};
    verifier.supports_grammars = supports_grammars_;
    return PlanRequest(request_, {.verifier = verifier,
                                  .drafters = {"chat", "math"},
                                  .policies = &policies_});
  }

  std::map<std::string, std::unique_ptr<MergePolicy>> policies_;
  GenerationRequest request_;
  bool supports_grammars_ = true;
  uint64_t weights_fingerprint_ = 0;
};

// So that a drafter shares nothing with a text of a target of other weights.
TEST_F(RequestPlanTest, TheSaltHasTheTargetsWeights) {
  request_.cache_salt.assign(256, 's');
  EXPECT_EQ(Plan()->session.cache_salt, request_.cache_salt);
  weights_fingerprint_ = 0xAB;
  EXPECT_EQ(Plan()->session.cache_salt,
            "00000000000000ab " + request_.cache_salt);
  request_.cache_salt.clear();
  const std::string first = Plan()->session.cache_salt;
  weights_fingerprint_ = 0xAC;
  EXPECT_NE(Plan()->session.cache_salt, first);
}

TEST_F(RequestPlanTest, FillsInWhatTheRequestLeavesOpen) {
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->session.max_tokens, 7);  // what the context holds
  EXPECT_THAT(plan->session.stop_token_ids, ElementsAre(0, 7));
  EXPECT_EQ(plan->budget.max_nodes, 32);  // what the verifier takes, of 64
  EXPECT_EQ(plan->budget.max_depth, 8);
  EXPECT_TRUE(plan->adaptive);
  EXPECT_THAT(plan->drafters, ElementsAre(0, 1));
  EXPECT_EQ(plan->strategy, "budgeted");
  EXPECT_EQ(plan->policy, policies_["budgeted"].get());
  EXPECT_EQ(plan->rule, "auto");
}

TEST_F(RequestPlanTest, AGrammarNeedsAVerifierThatFollowsIt) {
  request_.adjustments.grammar = {.kind = GrammarSpec::Kind::kRegex,
                                  .text = "a*"};
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->session.adjustments.grammar.text, "a*");
  EXPECT_EQ(plan->session.adjustments.prompt_length, 3);
  supports_grammars_ = false;
  EXPECT_EQ(FieldOf(Plan().status()), "structured_output.regex");
}

TEST_F(RequestPlanTest, ErrorsOfThePromptNameTheFieldThatItCameIn) {
  request_.prompt = {1, 99};
  request_.prompt_field = "token_ids";
  EXPECT_EQ(FieldOf(Plan().status()), "token_ids");
  request_.prompt.clear();
  EXPECT_EQ(FieldOf(Plan().status()), "token_ids");
  request_.prompt.assign(10, 1);
  EXPECT_EQ(FieldOf(Plan().status()), "token_ids");
}

TEST_F(RequestPlanTest, WarnsOfTokensThatTheContextDoesNotHold) {
  EXPECT_THAT(Plan()->warnings, ElementsAre());  // 256 is only the default
  request_.max_tokens = 7;
  EXPECT_THAT(Plan()->warnings, ElementsAre());
  request_.max_tokens = 8;
  const auto plan = Plan();
  EXPECT_EQ(plan->session.max_tokens, 7);
  EXPECT_THAT(plan->warnings, ElementsAre("max_tokens: 8 asked for; 7 fit the "
                                          "context of 10 after a prompt of "
                                          "3"));
}

TEST_F(RequestPlanTest, PolicyThatCannotPriceNodesTakesAFixedNumber) {
  request_.speculation.strategy = "union";
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->budget.max_nodes, 15);
  EXPECT_FALSE(plan->adaptive);
}

TEST_F(RequestPlanTest, NumberOfNodesInTheRequestIsKept) {
  request_.speculation.max_nodes = 5;
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->budget.max_nodes, 5);
  EXPECT_FALSE(plan->adaptive);
}

TEST_F(RequestPlanTest, TakesWhatTheRequestSays) {
  request_.max_tokens = 2;
  request_.stop_token_ids = {9};
  request_.ignore_eos = true;
  request_.speculation = {.max_nodes = 4,
                          .max_depth = 9,
                          .drafters = {"math"},
                          .strategy = "single",
                          .rule = "walk"};
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->session.max_tokens, 2);
  EXPECT_THAT(plan->session.stop_token_ids, ElementsAre(9));
  EXPECT_EQ(plan->budget.max_nodes, 4);
  EXPECT_EQ(plan->budget.max_depth, 4);  // no tree of 4 nodes is deeper
  EXPECT_THAT(plan->drafters, ElementsAre(1));
  EXPECT_EQ(plan->policy, policies_["single"].get());
  EXPECT_EQ(plan->rule, "walk");
}

TEST_F(RequestPlanTest, TheVerifierSaysWhichRulesReadDraftDistributions) {
  const auto reads = [this](const std::string& rule, float temperature) {
    request_.speculation.rule = rule;
    request_.sampling.temperature = temperature;
    return Plan()->reads_draft_distributions;
  };
  EXPECT_TRUE(reads("trv", 1));
  EXPECT_FALSE(reads("trv", 0));  // nothing is sampled
  for (const char* rule : {"auto", "walk", "plain"}) {
    EXPECT_FALSE(reads(rule, 1)) << rule;
  }
}

TEST_F(RequestPlanTest, SpeculationTurnedOffAsksNobody) {
  for (const SpeculationOptions& off : {SpeculationOptions{.enabled = false},
                                        SpeculationOptions{.max_nodes = 0},
                                        SpeculationOptions{.max_depth = 0}}) {
    request_.speculation = off;
    const auto plan = Plan();
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->budget.max_nodes, 0);
    EXPECT_TRUE(plan->drafters.empty());
    EXPECT_EQ(plan->strategy, "none");
  }
}

TEST_F(RequestPlanTest, AdjustmentsKnowThePromptAndWhatStopsTheText) {
  request_.stop_token_ids = {9, 7};
  request_.adjustments = {.min_tokens = 7, .repetition_penalty = 1.5f};
  auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->session.adjustments.prompt_length, 3);
  EXPECT_EQ(plan->session.adjustments.repetition_penalty, 1.5f);
  EXPECT_THAT(plan->session.adjustments.early_stops, ElementsAre(0, 7, 9));
  request_.ignore_eos = true;
  plan = Plan();
  EXPECT_THAT(plan->session.adjustments.early_stops, ElementsAre(7, 9));
}

TEST_F(RequestPlanTest, WhatIsReturnedIsForTheSession) {
  request_.logprobs = {.emitted = 20, .prompt = 0};
  request_.traceparent = "00-trace";
  request_.new_text = [] { return nullptr; };
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->session.logprobs, request_.logprobs);
  EXPECT_EQ(plan->session.traceparent, "00-trace");
  EXPECT_TRUE(plan->session.new_text != nullptr);
}

TEST_F(RequestPlanTest, TenantsShareNoCacheWhateverTheirSalts) {
  std::set<std::string> salts;
  for (const std::string tenant : {"", "a", "b", "ab"}) {
    for (const std::string salt : {"", "a", "b"}) {
      request_.tenant = tenant;
      request_.cache_salt = salt;
      const auto plan = Plan();
      ASSERT_TRUE(plan.ok()) << plan.status();
      salts.insert(plan->session.cache_salt);
      EXPECT_LE(plan->session.cache_salt.size(), salt.size() + 17);
    }
  }
  EXPECT_EQ(salts.size(), 12);
}

struct BadRequest {
  const char* name;
  const char* field;
  const char* message;
  std::function<void(GenerationRequest&)> spoil;
};

class RequestPlanErrorTest : public RequestPlanTest,
                             public testing::WithParamInterface<BadRequest> {};

TEST_P(RequestPlanErrorTest, NamesFieldValueAndLimit) {
  GetParam().spoil(request_);
  const absl::Status status = Plan().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldOf(status), GetParam().field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, RequestPlanErrorTest,
    testing::Values(
        BadRequest{"NoId", "request_id", "empty",
                   [](GenerationRequest& r) { r.request_id = ""; }},
        BadRequest{"NoPrompt", "prompt", "empty",
                   [](GenerationRequest& r) { r.prompt.clear(); }},
        BadRequest{"LongPrompt", "prompt", "10 tokens; at most 9 fit",
                   [](GenerationRequest& r) { r.prompt.assign(10, 1); }},
        BadRequest{"PromptToken", "prompt", "token 50 at index 1",
                   [](GenerationRequest& r) { r.prompt[1] = 50; }},
        BadRequest{"StopToken", "stop_token_ids", "token -1 at index 0",
                   [](GenerationRequest& r) { r.stop_token_ids = {-1}; }},
        BadRequest{"NoTokens", "max_tokens", "0 is below 1",
                   [](GenerationRequest& r) { r.max_tokens = 0; }},
        BadRequest{
            "Cold", "temperature", "0.001 is neither 0 (greedy) nor",
            [](GenerationRequest& r) { r.sampling.temperature = 1e-3f; }},
        BadRequest{"NanTemperature", "temperature", "nan is neither",
                   [](GenerationRequest& r) { r.sampling.temperature = NAN; }},
        BadRequest{"TopK", "top_k", "-1 is negative",
                   [](GenerationRequest& r) { r.sampling.top_k = -1; }},
        BadRequest{"TopP", "top_p", "0 is not above 0",
                   [](GenerationRequest& r) { r.sampling.top_p = 0; }},
        BadRequest{"NanTopP", "top_p", "nan is not above 0",
                   [](GenerationRequest& r) { r.sampling.top_p = NAN; }},
        BadRequest{"MinP", "min_p", "1.5 is not between 0 and 1",
                   [](GenerationRequest& r) { r.sampling.min_p = 1.5f; }},
        BadRequest{"TypicalP", "typical_p", "0 is not above 0",
                   [](GenerationRequest& r) { r.sampling.typical_p = 0; }},
        BadRequest{
            "Repetition", "repetition_penalty", "0 is not between 0.01 and 100",
            [](GenerationRequest& r) { r.adjustments.repetition_penalty = 0; }},
        BadRequest{"Frequency", "frequency_penalty", "nan is not between -2",
                   [](GenerationRequest& r) {
                     r.adjustments.frequency_penalty = NAN;
                   }},
        BadRequest{"Presence", "presence_penalty", "2.5 is not between -2 and",
                   [](GenerationRequest& r) {
                     r.adjustments.presence_penalty = 2.5f;
                   }},
        BadRequest{"Bias", "logit_bias", "101 is not between -100 and 100",
                   [](GenerationRequest& r) {
                     r.adjustments.bias = {{1, 101.0f}};
                   }},
        BadRequest{"BiasToken", "logit_bias", "token 50 at index 1",
                   [](GenerationRequest& r) {
                     r.adjustments.bias = {{1, 1.0f}, {50, 1.0f}};
                   }},
        BadRequest{"BiasTwice", "logit_bias", "a token is listed twice",
                   [](GenerationRequest& r) {
                     r.adjustments.bias = {{1, 1.0f}, {1, 1.0f}};
                   }},
        BadRequest{"BadWord", "bad_words", "a word of 0 tokens",
                   [](GenerationRequest& r) {
                     r.adjustments.bad_words = {{1}, {}};
                   }},
        BadRequest{"NothingAllowed", "bad_words",
                   "50 tokens could be forbidden at once",
                   [](GenerationRequest& r) {
                     for (TokenId token = 0; token < 50; ++token) {
                       r.adjustments.bad_words.push_back({token});
                     }
                   }},
        BadRequest{"Grammar", "structured_output.grammar", "empty",
                   [](GenerationRequest& r) {
                     r.adjustments.grammar.kind = GrammarSpec::Kind::kEbnf;
                   }},
        BadRequest{"MinTokens", "min_tokens", "8 is above the 7 tokens",
                   [](GenerationRequest& r) { r.adjustments.min_tokens = 8; }},
        BadRequest{"Salt", "cache_salt", "257 bytes, limit 256",
                   [](GenerationRequest& r) { r.cache_salt.assign(257, 's'); }},
        BadRequest{"Priority", "priority", "1001 is not in -1000 .. 1000",
                   [](GenerationRequest& r) { r.priority = 1001; }},
        BadRequest{"Logprobs", "logprobs", "21 is not in 0 .. 20",
                   [](GenerationRequest& r) { r.logprobs.emitted = 21; }},
        BadRequest{"PromptLogprobs", "prompt_logprobs", "-1 is not in 0 .. 20",
                   [](GenerationRequest& r) { r.logprobs.prompt = -1; }},
        BadRequest{"Nodes", "speculation.max_nodes", "33 is not in 0 .. 32",
                   [](GenerationRequest& r) { r.speculation.max_nodes = 33; }},
        BadRequest{"Depth", "speculation.max_depth", "-1 is negative",
                   [](GenerationRequest& r) { r.speculation.max_depth = -1; }},
        BadRequest{
            "Drafter", "speculation.drafters",
            "unknown \"eagel\"; known: chat, math",
            [](GenerationRequest& r) { r.speculation.drafters = {"eagel"}; }},
        BadRequest{"DrafterTwice", "speculation.drafters",
                   "\"chat\" is named twice",
                   [](GenerationRequest& r) {
                     r.speculation.drafters = {"chat", "chat"};
                   }},
        BadRequest{
            "Strategy", "speculation.strategy",
            "unknown \"vote\"; known: auto, budgeted, single, union",
            [](GenerationRequest& r) { r.speculation.strategy = "vote"; }},
        BadRequest{
            "Rule", "speculation.rule",
            "unknown \"typical\"; known: auto, walk, plain, trv",
            [](GenerationRequest& r) { r.speculation.rule = "typical"; }}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(RequestErrorsTest, CheckTokensNamesTheFirstOutside) {
  EXPECT_TRUE(CheckTokens("prompt", {0, 999}, 1000).ok());
  const absl::Status status = CheckTokens("prompt", {0, 1000, -1}, 1000);
  EXPECT_EQ(FieldOf(status), "prompt");
  EXPECT_EQ(status.message(),
            "prompt: token 1000 at index 1 outside the vocabulary of 1000");
  EXPECT_FALSE(CheckTokens("prompt", {-1}, 1000).ok());
}

TEST(RequestErrorsTest, DetailsSurviveTheStatus) {
  const absl::Status status = WithRetryAfter(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(1500));
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(1500));
  EXPECT_EQ(FieldOf(status), std::nullopt);
  EXPECT_EQ(RetryAfter(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(FieldError("top_p", "bad").message(), "top_p: bad");
}

TEST_F(RequestPlanTest, ResumedTokensFitTheRequest) {
  request_.max_tokens = 3;
  request_.resumed = {{.tokens = {4, 5, 6}}};
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->resumed[0].tokens, ElementsAre(4, 5, 6));
  request_.resumed[0].tokens.push_back(7);
  EXPECT_EQ(FieldOf(Plan().status()), "resumption.outputs[0].token_ids");
  request_.resumed[0].tokens = {50};
  EXPECT_EQ(FieldOf(Plan().status()), "resumption.outputs[0].token_ids");
}

TEST_F(RequestPlanTest, AnAnswerOfAnotherOriginIsNotResumed) {
  weights_fingerprint_ = 0xAB;
  const uint64_t origin = Plan()->origin;
  EXPECT_EQ(Plan()->origin, origin);
  request_.resumed = {{.tokens = {4}}};
  EXPECT_TRUE(Plan().ok()) << "an origin is not required";
  request_.resumed_origin = origin;
  EXPECT_TRUE(Plan().ok());
  weights_fingerprint_ = 0xAC;
  EXPECT_TRUE(absl::IsFailedPrecondition(Plan().status()));
  weights_fingerprint_ = 0xAB;
  request_.prompt.push_back(4);
  EXPECT_TRUE(absl::IsFailedPrecondition(Plan().status()));
}

}  // namespace
}  // namespace espalier::coordinator
