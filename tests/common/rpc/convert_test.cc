#include "common/rpc/convert.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

TokenTree SmallTree() {
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 10, -0.5f);
  tree.Add(0, 11, -1.5f);
  tree.Add(1, 999, -2.0f);
  tree.provenance = {0, 1, 2, uint64_t{1} << 63};
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2},
                  {.node = 1, .distribution = 0},
                  {.node = 3, .distribution = 1}};
  tree.distributions.Add({10, 12}, {kDistributionTotal - 1, 1});
  tree.distributions.Add({999}, {kDistributionTotal},
                         SampleDependence::kWithoutReplacement);
  return tree;
}

void ExpectEqual(const TokenTree& a, const TokenTree& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.parents, b.parents);
  EXPECT_EQ(a.log_probs, b.log_probs);
  EXPECT_EQ(a.provenance, b.provenance);
  EXPECT_EQ(a.samples, b.samples);
  ASSERT_EQ(a.distributions.size(), b.distributions.size());
  for (int32_t i = 0; i < a.distributions.size(); ++i) {
    EXPECT_EQ(a.distributions[i].tokens, b.distributions[i].tokens);
    EXPECT_EQ(a.distributions[i].weights, b.distributions[i].weights);
    EXPECT_EQ(a.distributions[i].draws, b.distributions[i].draws);
  }
}

void ExpectEqual(const SequenceUpdate& a, const SequenceUpdate& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.round, b.round);
  EXPECT_EQ(a.base_length, b.base_length);
  EXPECT_EQ(a.prefix_hash, b.prefix_hash);
  EXPECT_EQ(a.new_tokens, b.new_tokens);
  EXPECT_EQ(a.sampling, b.sampling);
}

template <typename Message>
void ExpectRefused(const Message& message, const char* what) {
  auto result = FromProto(message);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(what));
}

GrammarSpec TestGrammar() {
  return {
      .kind = GrammarSpec::Kind::kJsonSchema, .text = "{}", .compact = true};
}

TEST(Convert, ProposeGoesThroughUnchanged) {
  const ProposeRequest request{
      .update = TestUpdate(3),
      .budget = {.max_nodes = 7, .max_depth = 4, .least_reach = 0.25f},
      .lookahead = {999, 0},
      .grammar = TestGrammar(),
      .prompt_length = 4};
  const v1::Propose message = ToProto(request, absl::Milliseconds(2));
  auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(back->update, request.update);
  EXPECT_EQ(back->budget.max_nodes, 7);
  EXPECT_EQ(back->budget.max_depth, 4);
  EXPECT_EQ(back->budget.least_reach, 0.25f);
  EXPECT_EQ(back->lookahead, request.lookahead);
  EXPECT_EQ(back->grammar, request.grammar);
  EXPECT_EQ(back->prompt_length, 4);
  EXPECT_EQ(TimeBudget(message), absl::Milliseconds(2));
}

TEST(Convert, ProposalGoesThroughUnchanged) {
  const Proposal proposal{
      .round = ~uint64_t{0},
      .committed_length = 100'000,
      .tree = SmallTree(),
      .compute_time = absl::Microseconds(31),
      .level_times = {absl::Microseconds(20), absl::Microseconds(7)}};
  auto back = FromProto(ToProto(proposal));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->round, proposal.round);
  EXPECT_EQ(back->committed_length, 100'000);
  EXPECT_EQ(back->compute_time, proposal.compute_time);
  EXPECT_EQ(back->level_times, proposal.level_times);
  ExpectEqual(back->tree, proposal.tree);
}

TokenRanks TestRanks() {
  return {.top = 2,
          .contexts = {1, 2, 3, 4},
          .tokens = {5, 6, 7, 8},
          .log_probs = {-0.5f, -1, -0.25f, -2}};
}

TEST(Convert, VerifyRequestGoesThroughUnchanged) {
  const VerifyRequest request{.update = TestUpdate(3),
                              .tree = SmallTree(),
                              .rule = "walk",
                              .features = {.taps = {2}, .first_position = 17},
                              .max_length = 5000,
                              .adjustments = {.prompt_length = 7,
                                              .grammar = TestGrammar(),
                                              .bad_words = {{1, 2}, {3}},
                                              .min_tokens = 4,
                                              .early_stops = {0, 9},
                                              .bias = {{5, -1.5f}, {8, 2.0f}},
                                              .repetition_penalty = 1.25f,
                                              .frequency_penalty = -0.5f,
                                              .presence_penalty = 0.75f},
                              .priority = -5,
                              .share = {"acme", 2.5},
                              .logprobs = {.emitted = 0, .prompt = 20},
                              .ranks = {.top = 4, .prompt_rows = 9}};
  auto back = FromProto(ToProto(request, absl::Seconds(1)));
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(back->update, request.update);
  ExpectEqual(back->tree, request.tree);
  EXPECT_EQ(back->rule, "walk");
  EXPECT_EQ(back->features, request.features);
  EXPECT_EQ(back->max_length, 5000);
  EXPECT_EQ(back->priority, -5);
  EXPECT_EQ(back->share.tenant, "acme");
  EXPECT_EQ(back->share.weight, 2.5);
  EXPECT_EQ(back->adjustments, request.adjustments);
  EXPECT_EQ(back->logprobs, request.logprobs);
  EXPECT_EQ(back->ranks, request.ranks);
  EXPECT_FALSE(ToProto(VerifyRequest{}, absl::Seconds(1)).has_logprobs());
  EXPECT_FALSE(ToProto(VerifyRequest{}, absl::Seconds(1)).has_adjustments());
  EXPECT_FALSE(ToProto(VerifyRequest{}, absl::Seconds(1)).has_features());
  v1::VerifyTree many = ToProto(request, absl::Seconds(1));
  many.mutable_ranks()->set_top(65);
  ExpectRefused(many, "ranks.top");
}

TEST(Convert, ATenantsWeightIsANumber) {
  v1::VerifyTree message =
      ToProto(VerifyRequest{.update = TestUpdate(3), .tree = SmallTree()}, {});
  EXPECT_EQ(FromProto(message)->share.weight, 1);
  for (const double weight : {-1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    message.set_tenant_weight(weight);
    ExpectRefused(message, "tenant_weight");
  }
  message.set_tenant_weight(1);
  message.set_tenant(std::string(129, 'a'));
  ExpectRefused(message, "tenant");
}

TEST(Convert, ATraceGoesThroughUnchanged) {
  VerifyRequest request = {.update = TestUpdate(3), .tree = SmallTree()};
  request.update.traceparent =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  v1::VerifyTree message = ToProto(request, absl::Seconds(1));
  EXPECT_EQ(FromProto(message)->update.traceparent, request.update.traceparent);
  message.mutable_update()->set_traceparent("00-\n");
  ExpectRefused(message, "update.traceparent is malformed");
}

TEST(Convert, ACacheSaltIsAnyBytes) {
  SequenceUpdate update = TestUpdate(0);
  update.cache_salt = std::string("\xFF\0s", 3);
  auto back = FromProto(ToProto(update));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->cache_salt, update.cache_salt);
  update.cache_salt.assign(274, 's');
  ExpectRefused(ToProto(update), "update.cache_salt");
}

TEST(Convert, VerifyResultGoesThroughUnchanged) {
  VerifyResult verify_result;
  verify_result.round = 8;
  verify_result.path = {1, 3};
  verify_result.tokens = {10, 999, 5};
  verify_result.rule = "walk";
  verify_result.near_ties = 2;
  verify_result.cached_tokens = 64;
  verify_result.timings.forward = absl::Milliseconds(9);
  verify_result.timings.room = absl::Milliseconds(7);
  verify_result.timings.measuring = absl::Milliseconds(5);
  verify_result.timings.commit = absl::Microseconds(1);
  verify_result.pass_costs = {{1, absl::Milliseconds(6)},
                              {16, absl::Milliseconds(8)}};
  verify_result.logprobs = {.top = 1,
                            .chosen = {-1, -2, -3},
                            .top_tokens = {4, 5, 6},
                            .top_logprobs = {-0.5f, -2, -3}};
  verify_result.prompt_logprobs = {.chosen = {-0.25f}};
  verify_result.memory = TestVerifierInfo().memory;
  verify_result.ranks = TestRanks();
  auto back = FromProto(ToProto(verify_result));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->round, 8);
  EXPECT_EQ(back->path, verify_result.path);
  EXPECT_EQ(back->tokens, verify_result.tokens);
  EXPECT_EQ(back->rule, "walk");
  EXPECT_EQ(back->near_ties, 2);
  EXPECT_EQ(back->cached_tokens, 64);
  EXPECT_EQ(back->timings.forward, verify_result.timings.forward);
  EXPECT_EQ(back->timings.room, verify_result.timings.room);
  EXPECT_EQ(back->timings.measuring, verify_result.timings.measuring);
  EXPECT_EQ(back->timings.total(), verify_result.timings.total());
  EXPECT_EQ(back->pass_costs, verify_result.pass_costs);
  EXPECT_EQ(back->logprobs, verify_result.logprobs);
  EXPECT_EQ(back->prompt_logprobs, verify_result.prompt_logprobs);
  EXPECT_EQ(back->memory, verify_result.memory);
  EXPECT_EQ(back->ranks, verify_result.ranks);
}

TEST(Convert, WhatADrafterLearnsFromGoesThroughUnchanged) {
  const ProposeRequest request = {
      .update = TestUpdate(3), .prompt_length = 2, .ranks = TestRanks()};
  const auto back = FromProto(ToProto(request, absl::Seconds(1)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->prompt_length, 2);
  EXPECT_EQ(back->ranks, request.ranks);
}

TEST(Convert, RefusesCostsThatDoNotAscend) {
  const auto verify_result_with = [](const PassCosts& costs) {
    VerifyResult verify_result;
    verify_result.tokens = {1};
    verify_result.pass_costs = costs;
    return ToProto(verify_result);
  };
  const absl::Duration time = absl::Milliseconds(6);
  ExpectRefused(verify_result_with({{0, time}}), "rows must ascend");
  ExpectRefused(verify_result_with({{2, time}, {2, time}}), "rows must ascend");
  ExpectRefused(verify_result_with({{2, time}, {4, time / 2}}),
                "3000 us for 4 rows after 6000 us for 2;");
  v1::VerifierHello hello = ToProto(TestVerifierInfo());
  hello.add_pass_costs();
  ExpectRefused(hello, "pass_costs");
  hello = ToProto(TestVerifierInfo());
  hello.mutable_memory()->set_device_bytes(uint64_t{1} << 63);
  ExpectRefused(hello, "memory");

  PassCosts many;
  for (int64_t rows = 1; rows <= 1024; ++rows) many.push_back({rows, time});
  EXPECT_TRUE(FromProto(verify_result_with(many)).ok());
  many.push_back({1025, time});
  ExpectRefused(verify_result_with(many), "1025 exceeds 1024");
}

TEST(Convert, TimeBudgetsAreClampedAndNeverBecomeUnlimited) {
  const ProposeRequest propose{.update = TestUpdate(1)};
  EXPECT_EQ(TimeBudget(ToProto(propose, -absl::Seconds(1))),
            absl::ZeroDuration());
  EXPECT_EQ(ToProto(propose, absl::InfiniteDuration()).time_budget_us(),
            std::numeric_limits<uint32_t>::max());
  const VerifyRequest verify{.update = TestUpdate(1)};
  EXPECT_EQ(TimeBudget(ToProto(verify, -absl::Seconds(1))),
            absl::Microseconds(1));
  EXPECT_EQ(TimeBudget(ToProto(verify, absl::InfiniteDuration())),
            absl::InfiniteDuration());
  v1::VerifyTree huge;
  huge.set_time_budget_us(~uint64_t{0});
  EXPECT_GT(TimeBudget(huge), absl::Hours(24));
}

TEST(Convert, RefusesColumnsOfUnequalLength) {
  v1::TokenTree tree = ToProto(SmallTree());
  tree.add_token(1);
  ExpectRefused(tree, "5 tokens, 4 parents");
  tree = ToProto(SmallTree());
  tree.mutable_log_prob()->RemoveLast();
  ExpectRefused(tree, "3 log_probs");
  tree = ToProto(SmallTree());
  tree.add_provenance(1);
  ExpectRefused(tree, "5 provenances");
  tree = ToProto(SmallTree());
  tree.add_sample_distribution(0);
  ExpectRefused(tree, "4 sample_nodes, 5 sample_distributions");
  tree = ToProto(SmallTree());
  tree.add_distribution_weight(1);
  ExpectRefused(tree,
                "distributions of 3 tokens in all, but 3 distribution_tokens, "
                "4 distribution");
  tree = ToProto(SmallTree());
  tree.set_distribution_size(0, ~uint32_t{0});
  ExpectRefused(tree, "tree: distribution_size 4294967295 exceeds 2048");
  tree = ToProto(SmallTree());
  tree.add_distribution_without_replacement(2);
  ExpectRefused(tree,
                "tree.distribution_without_replacement: distribution 2 of 2");
}

TEST(Convert, RefusesTreesOfMoreBytesThanAnyRuleIsWorth) {
  v1::TokenTree wide = ToProto(SmallTree());
  for (int i = 0; i < 11; ++i) {
    wide.add_distribution_size(49152);
    for (int token = 0; token < 49152; ++token) {
      wide.add_distribution_token(token);
      wide.add_distribution_weight(1);
    }
  }
  ExpectRefused(wide,
                "tree: entries of distribution_token 540675 exceeds 524288");
  wide = ToProto(SmallTree());
  wide.set_distribution_size(0, 49152);
  ExpectRefused(wide, "tree: distribution_size 49152 exceeds 2048");
  wide = ToProto(SmallTree());
  for (int i = 0; i < 1000; ++i) wide.add_distribution_size(0);
  ExpectRefused(wide, "tree: entries of distribution_size 1002 exceeds 256");
  wide = ToProto(SmallTree());
  for (int i = 0; i < 1000; ++i) wide.add_sample_node(1);
  ExpectRefused(wide, "tree: entries of sample_node 1004 exceeds 256");
  wide = ToProto(SmallTree());
  for (int i = 0; i < 5000; ++i) wide.add_token(1);
  ExpectRefused(wide, "tree: entries of token 5004 exceeds 4096");
}

TEST(Convert, RefusesNumbersThatDoNotFit) {
  v1::TokenTree tree = ToProto(SmallTree());
  tree.set_token(1, 0x80000000u);
  ExpectRefused(tree, "tree.token 2147483648 exceeds 2147483647");

  v1::SequenceUpdate update = ToProto(TestUpdate(1));
  update.add_new_tokens(0xffffffffu);
  ExpectRefused(update, "update.new_tokens 4294967295");
  update = ToProto(TestUpdate(1));
  update.mutable_key()->set_base_length(uint64_t{1} << 40);
  ExpectRefused(update, "update.key.base_length");
  update = ToProto(TestUpdate(1));
  update.mutable_sampling()->set_top_k(0x80000000u);
  ExpectRefused(update, "top_k");

  v1::Proposal proposal;
  proposal.set_committed_length(~uint64_t{0});
  ExpectRefused(proposal, "committed_length");
  v1::ModelIdentity model;
  model.set_vocab_size(uint64_t{1} << 33);
  ExpectRefused(model, "model.vocab_size");
}

TEST(Convert, RefusesSamplingOutOfRange) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  for (float temperature : {nan, infinity, -1.0f, 0.001f, 101.0f}) {
    v1::SequenceUpdate update = ToProto(TestUpdate(1));
    update.mutable_sampling()->set_temperature(temperature);
    ExpectRefused(update, "temperature");
  }
  for (float top_p : {nan, 0.0f, -0.1f, 1.1f}) {
    v1::SequenceUpdate update = ToProto(TestUpdate(1));
    update.mutable_sampling()->set_top_p(top_p);
    ExpectRefused(update, "top_p");
  }
}

TEST(Convert, RefusesMissingParts) {
  ExpectRefused(v1::Propose(), "update.key is missing");
  v1::SequenceUpdate update = ToProto(TestUpdate(1));
  update.clear_sampling();
  ExpectRefused(update, "update.sampling is missing");
  ExpectRefused(v1::VerifyResult(), "0 tokens for a path of 0");
}

// Any bytes are parsed or not, converted or refused, without a crash. A
// converted tree has columns of equal length.
TEST(Convert, SurvivesMutatedBytes) {
  v1::VerifyRequest request;
  *request.mutable_verify() = ToProto(
      VerifyRequest{.update = TestUpdate(1), .tree = SmallTree(), .rule = "r"},
      absl::Seconds(1));
  v1::DraftResponse response;
  *response.mutable_proposal() =
      ToProto(Proposal{.round = 1, .committed_length = 3, .tree = SmallTree()});
  const std::string originals[] = {request.SerializeAsString(),
                                   response.SerializeAsString()};
  std::mt19937 random(20240607);
  int converted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = originals[i % 2];
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    if (i % 2 == 0) {
      v1::VerifyRequest message;
      if (!message.ParseFromString(bytes)) continue;
      auto result = FromProto(message.verify());
      if (!result.ok()) continue;
      ++converted;
      EXPECT_EQ(result->tree.tokens.size(), result->tree.parents.size());
      EXPECT_EQ(result->tree.tokens.size(), result->tree.log_probs.size());
      (void)result->tree.Validate(
          {.max_nodes = 100, .max_depth = 100, .vocab_size = 1000});
    } else {
      v1::DraftResponse message;
      if (!message.ParseFromString(bytes)) continue;
      auto result = FromProto(message.proposal());
      if (!result.ok()) continue;
      ++converted;
      EXPECT_EQ(result->tree.tokens.size(), result->tree.parents.size());
      (void)result->tree.Validate(
          {.max_nodes = 100, .max_depth = 100, .vocab_size = 1000});
    }
  }
  EXPECT_GT(converted, 100);  // the mutations reach the converters
}

}  // namespace
}  // namespace espalier
