// Ranks are those of the model's own rows: of every node, accepted or not, and
// of the prompt, each once.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier::verify_engine_ranks_test {
namespace {

// Returns the rows after these texts.
TokenRanks Expected(const ScriptedLanguageModel::Options& script,
                    const std::vector<Text>& texts, int32_t top) {
  TokenRanks ranks = {.top = top};
  for (const Text& text : texts) {
    const auto row = ScriptedLanguageModel::LogitsAfter(script, text);
    const auto ranking = RankFrom(row, {.top_k = top});
    ranks.contexts.insert(ranks.contexts.end(), text.end() - 2, text.end());
    for (const RankedToken& token : ranking->top) {
      ranks.tokens.push_back(token.token);
      ranks.log_probs.push_back(
          static_cast<float>(token.logit - ranking->log_sum_exp));
    }
  }
  return ranks;
}

std::vector<Text> Prefixes(const Text& text, int64_t from) {
  std::vector<Text> prefixes;
  for (int64_t size = from; size <= std::ssize(text); ++size) {
    prefixes.emplace_back(text.begin(), text.begin() + size);
  }
  return prefixes;
}

const Text kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

TEST(VerifyEngineRanksTest, OfAPromptAndOfEveryNode) {
  for (float temperature : {0.0f, 1.0f}) {
    for (int64_t max_rows : {3, 32}) {
      EngineHarness harness({.max_rows = max_rows});
      Client client = {.id = {1, 1},
                       .text = kPrompt,
                       .sampling = {.temperature = temperature, .seed = 5}};
      TokenTree tree = TokenTree::RootOnly(3);
      tree.Add(0, 11, -1);
      tree.Add(1, 12, -2);
      VerifyRequest request = client.Request(std::move(tree));
      request.ranks = {.top = 4, .prompt_rows = 100};
      const auto result = harness.Ask(std::move(request));
      ASSERT_TRUE(result.ok()) << result.status();
      std::vector<Text> texts = Prefixes(kPrompt, 2);
      texts.push_back(kPrompt);
      texts.back().push_back(11);
      texts.push_back(texts.back());
      texts.back().push_back(12);
      EXPECT_EQ(result->ranks, Expected(harness.script, texts, 4));
      client.Commit(*result);

      // The next round's are those of its tree alone.
      VerifyRequest next = client.Request();
      next.ranks = {.top = 4, .prompt_rows = 100};
      const auto second = harness.Ask(std::move(next));
      ASSERT_TRUE(second.ok()) << second.status();
      EXPECT_EQ(second->ranks, Expected(harness.script, {client.text}, 4));
    }
  }
}

TEST(VerifyEngineRanksTest, OfTheLastRowsOfAPromptOnly) {
  for (int64_t max_rows : {3, 32}) {
    EngineHarness harness({.max_rows = max_rows});
    Client client = {.id = {1, 1}, .text = kPrompt};
    VerifyRequest request = client.Request();
    request.ranks = {.top = 2, .prompt_rows = 4};
    const auto result = harness.Ask(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ranks, Expected(harness.script, Prefixes(kPrompt, 6), 2));
  }
}

TEST(VerifyEngineRanksTest, BesideLogprobsBothAreThere) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  VerifyRequest request = client.Request();
  request.ranks = {.top = 2, .prompt_rows = 4};
  request.logprobs = {.emitted = 1, .prompt = 1};
  const auto result = harness.Ask(std::move(request));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ranks, Expected(harness.script, Prefixes(kPrompt, 6), 2));
  EXPECT_EQ(result->prompt_logprobs.size(), std::ssize(kPrompt) - 1);
}

// Ranks change no token, whatever the rule and the options.
TEST(VerifyEngineRanksTest, TheTextIsTheSame) {
  for (float temperature : {0.0f, 1.0f}) {
    for (float top_p : {1.0f, 0.7f}) {
      const SamplingParams sampling = {
          .temperature = temperature, .top_p = top_p, .seed = 9};
      EngineHarness harness;
      const Text plain = PlainText(harness.script, kPrompt, sampling, 40);
      Client client = {.id = {1, 1}, .text = kPrompt, .sampling = sampling};
      while (std::ssize(client.text) < 40) {
        TokenTree tree = TokenTree::RootOnly(client.text.back());
        tree.Add(0, plain[client.text.size()], -1);
        VerifyRequest request = client.Request(std::move(tree));
        request.ranks = {.top = 64, .prompt_rows = 8};
        const auto result = harness.Ask(std::move(request));
        ASSERT_TRUE(result.ok()) << result.status();
        client.Commit(*result);
      }
      client.text.resize(40);
      EXPECT_EQ(client.text, plain);
    }
  }
}

TEST(VerifyEngineRanksTest, NobodyWhoWantsNoneGetsThem) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  const auto result = harness.Ask(client.Request());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->ranks.empty());
}

TEST(VerifyEngineRanksTest, ATextOfOneTokenHasNoContext) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = {7}};
  TokenTree tree = TokenTree::RootOnly(7);
  tree.Add(0, 8, -1);
  VerifyRequest request = client.Request(std::move(tree));
  request.ranks = {.top = 2, .prompt_rows = 4};
  const auto result = harness.Ask(std::move(request));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ranks, Expected(harness.script, {{7, 8}}, 2));
}

TEST(VerifyEngineRanksTest, TooManyAreRefused) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (const RanksRequest& ranks :
       {RanksRequest{.top = 65}, RanksRequest{.top = -1},
        RanksRequest{.top = 1, .prompt_rows = 1025}}) {
    VerifyRequest request = client.Request();
    request.ranks = ranks;
    EXPECT_TRUE(absl::IsInvalidArgument(harness.Ask(request).status()));
  }
}

}  // namespace
}  // namespace espalier::verifier::verify_engine_ranks_test
