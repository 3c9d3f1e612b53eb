#include "coordinator/vllm/vllm_request.h"

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "common/spec/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using vllm::grpc::engine::GenerateRequest;

GenerateRequest Request() {
  GenerateRequest request;
  request.set_request_id("r");
  request.mutable_tokenized()->add_input_ids(5);
  request.mutable_sampling_params();
  return request;
}

TEST(VllmRequestTest, UnsetAndZeroMeanWhatTheyMeanThere) {
  const auto out = FromVllm(Request());
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->temperature(), 1.0f);
  EXPECT_FALSE(out->has_top_p());
  EXPECT_EQ(out->top_k(), 0u);
  EXPECT_FALSE(out->has_repetition_penalty());
  EXPECT_EQ(out->max_tokens(), std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(out->has_seed());
  EXPECT_FALSE(out->has_n());
  EXPECT_FALSE(out->has_logprobs());
  EXPECT_THAT(out->token_ids().ids(), ElementsAre(5));
}

TEST(VllmRequestTest, EveryParameterArrives) {
  GenerateRequest request = Request();
  auto& params = *request.mutable_sampling_params();
  params.set_temperature(0);
  params.set_top_p(0.5f);
  params.set_top_k(3);
  params.set_min_p(0.1f);
  params.set_frequency_penalty(0.2f);
  params.set_presence_penalty(0.3f);
  params.set_repetition_penalty(1.4f);
  params.set_max_tokens(7);
  params.set_min_tokens(2);
  params.add_stop("x");
  params.add_stop_token_ids(9);
  params.set_ignore_eos(true);
  params.set_n(4);
  params.set_logprobs(5);
  params.set_prompt_logprobs(0);
  params.set_seed(-1);
  params.set_include_stop_str_in_output(true);
  (*params.mutable_logit_bias())[3] = -1;
  const auto out = FromVllm(request);
  ASSERT_TRUE(out.ok()) << out.status();
  v1::GenerateRequest expected;
  expected.set_request_id("r");
  expected.mutable_token_ids()->add_ids(5);
  expected.set_temperature(0);
  expected.set_top_p(0.5f);
  expected.set_top_k(3);
  expected.set_min_p(0.1f);
  expected.set_frequency_penalty(0.2f);
  expected.set_presence_penalty(0.3f);
  expected.set_repetition_penalty(1.4f);
  expected.set_max_tokens(7);
  expected.set_min_tokens(2);
  expected.add_stop("x");
  expected.add_stop_token_ids(9);
  expected.set_ignore_eos(true);
  expected.set_n(4);
  expected.set_logprobs(5);
  expected.set_prompt_logprobs(0);
  expected.set_seed(~uint64_t{0});
  expected.set_include_stop_str_in_output(true);
  (*expected.mutable_logit_bias())[3] = -1;
  EXPECT_EQ(out->DebugString(), expected.DebugString());
}

TEST(VllmRequestTest, ATextIsAPrompt) {
  GenerateRequest request = Request();
  request.set_text("Hello");
  EXPECT_EQ(FromVllm(request)->prompt(), "Hello");
}

TEST(VllmRequestTest, EveryConstraintArrives) {
  using Params = vllm::grpc::engine::SamplingParams;
  using Check = std::function<bool(const v1::StructuredOutput&)>;
  const std::vector<std::pair<std::function<void(Params&)>, Check>>
      constraints = {{[](auto& p) { p.set_json_schema("{}"); },
                      [](auto& s) { return s.json_schema() == "{}"; }},
                     {[](auto& p) { p.set_regex("a+"); },
                      [](auto& s) { return s.regex() == "a+"; }},
                     {[](auto& p) { p.set_grammar("root ::= a"); },
                      [](auto& s) { return s.grammar() == "root ::= a"; }},
                     {[](auto& p) { p.set_structural_tag("{}"); },
                      [](auto& s) { return s.structural_tag() == "{}"; }},
                     {[](auto& p) { p.set_json_object(true); },
                      [](auto& s) { return s.json_object(); }},
                     {[](auto& p) { p.mutable_choice()->add_choices("yes"); },
                      [](auto& s) { return s.choice().texts(0) == "yes"; }}};
  EXPECT_FALSE(FromVllm(Request())->has_structured_output());
  for (const auto& [set, is_there] : constraints) {
    GenerateRequest request = Request();
    set(*request.mutable_sampling_params());
    const auto out = FromVllm(request);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_TRUE(is_there(out->structured_output())) << out->DebugString();
  }
}

// Nothing is ignored that would change the answer.
TEST(VllmRequestTest, WhatIsNotImplementedIsRefusedByName) {
  using Change = std::function<void(GenerateRequest&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"mm_inputs", [](auto& r) { r.mutable_mm_inputs(); }},
      {"extra_mm_inputs", [](auto& r) { r.add_extra_mm_inputs(); }},
      {"media_refs", [](auto& r) { r.mutable_media_refs(); }},
      {"kv_transfer_params", [](auto& r) { r.mutable_kv_transfer_params(); }},
      {"kv_transfer_params_json",
       [](auto& r) { r.set_kv_transfer_params_json("{}"); }},
      {"data_parallel_rank", [](auto& r) { r.set_data_parallel_rank(1); }},
      {"truncate_prompt_tokens",
       [](auto& r) {
         r.mutable_sampling_params()->set_truncate_prompt_tokens(-1);
       }},
      {"logprobs",
       [](auto& r) { r.mutable_sampling_params()->set_logprobs(-1); }},
      {"prompt_logprobs",
       [](auto& r) { r.mutable_sampling_params()->set_prompt_logprobs(-1); }},
      {"logit_bias",
       [](auto& r) {
         (*r.mutable_sampling_params()->mutable_logit_bias())[-1] = 1;
       }},
  };
  for (const auto& [field, change] : changes) {
    GenerateRequest request = Request();
    change(request);
    EXPECT_EQ(FieldOf(FromVllm(request).status()), field);
  }
}

}  // namespace
}  // namespace espalier::coordinator
