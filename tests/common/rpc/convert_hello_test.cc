#include <string>

#include "common/rpc/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

TEST(ConvertHello, HellosGoThroughUnchanged) {
  auto drafter = FromProto(ToProto(TestDrafterInfo()));
  ASSERT_TRUE(drafter.ok());
  EXPECT_EQ(drafter->name, "lookup");
  EXPECT_EQ(drafter->type, "prompt_lookup");
  EXPECT_EQ(drafter->max_nodes, 2048);
  EXPECT_EQ(drafter->max_depth, 64);
  EXPECT_EQ(drafter->model.tokenizer_fingerprint, 0xabcu);
  EXPECT_TRUE(drafter->features.taps.empty());
  EXPECT_EQ(drafter->cpu_group, 12);
  EXPECT_TRUE(drafter->supports_lookahead);
  DrafterInfo head = TestDrafterInfo();
  head.features = {.taps = {0, 3, 7}, .hidden_size = 64};
  EXPECT_EQ(FromProto(ToProto(head))->features, head.features);
  EXPECT_FALSE(drafter->ranks.any());
  head.ranks = {.greedy = 4, .sampled = 64, .prompt_rows = 256};
  EXPECT_EQ(FromProto(ToProto(head))->ranks, head.ranks);
  v1::DrafterHello greedy = ToProto(head);
  greedy.mutable_ranks()->set_sampled(65);
  EXPECT_THAT(std::string(FromProto(greedy).status().message()),
              ::testing::HasSubstr("ranks.sampled"));

  auto verifier = FromProto(ToProto(TestVerifierInfo()));
  ASSERT_TRUE(verifier.ok());
  EXPECT_EQ(verifier->epoch, 77);
  EXPECT_EQ(verifier->cpu_group, 13);
  EXPECT_EQ(verifier->max_context, 200'000);
  EXPECT_EQ(verifier->rules, TestVerifierInfo().rules);
  EXPECT_EQ(verifier->distribution_rules,
            TestVerifierInfo().distribution_rules);
  EXPECT_EQ(verifier->eos_token_ids, TestVerifierInfo().eos_token_ids);
  EXPECT_EQ(verifier->device, "cpu");
  EXPECT_EQ(verifier->model.vocab_size, 1000);
  EXPECT_EQ(verifier->pass_costs, TestVerifierInfo().pass_costs);
  EXPECT_EQ(verifier->memory, TestVerifierInfo().memory);
  EXPECT_EQ(verifier->shape.num_layers, 12);
  EXPECT_EQ(verifier->shape.hidden_size, 64);
}

TEST(ConvertHello, TextsOfPeersAreBoundedAndPrintable) {
  v1::DrafterHello drafter = ToProto(DrafterInfo{.name = "a", .type = "b"});
  drafter.set_name("a\n2026-01-01 [error] \x1b[31mforged");
  const auto info = FromProto(drafter);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, "a\\x0a2026-01-01 [error] \\x1b[31mforged");
  drafter.set_type(std::string(60 << 20, 'x'));
  EXPECT_EQ(FromProto(drafter).status().message(),
            "type of 62914560 bytes, limit 128");

  v1::VerifierHello verifier = ToProto(VerifierInfo());
  verifier.mutable_model()->set_name(std::string(1000, 'x'));
  EXPECT_FALSE(FromProto(verifier).ok());
  verifier = ToProto(VerifierInfo());
  verifier.set_device(std::string(1000, 'x'));
  EXPECT_FALSE(FromProto(verifier).ok());
  verifier = ToProto(VerifierInfo());
  for (int i = 0; i < 1000; ++i) verifier.add_rules("walk");
  EXPECT_FALSE(FromProto(verifier).ok());
}

}  // namespace
}  // namespace espalier
