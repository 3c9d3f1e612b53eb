// Log-probabilities are those of the model's own rows: of a tree, of a chain,
// of a prompt in one pass or in many.

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

// Returns what a reader of the whole text would compute. [from, end)
LogprobRows Expected(const ScriptedLanguageModel::Options& script,
                     const Text& text, int64_t from, int32_t top) {
  LogprobRows rows = {.top = top};
  for (int64_t i = from; i < std::ssize(text); ++i) {
    rows.Append(ScriptedLanguageModel::LogitsAfter(
                    script, absl::MakeConstSpan(text).first(i)),
                text[i]);
  }
  return rows;
}

// Returns a tree that holds the next tokens of the plain text, beside wrong
// ones.
TokenTree TreeWith(const Text& plain, int64_t length) {
  TokenTree tree = TokenTree::RootOnly(plain[length - 1]);
  int32_t parent = 0;
  for (int64_t i = length; i < std::min<int64_t>(length + 3, std::ssize(plain));
       ++i) {
    tree.Add(parent, (plain[i] + 1) % 40, -1.0f);
    parent = tree.Add(parent, plain[i], -1.0f);
  }
  return tree;
}

TEST(VerifyEngineLogprobsTest, OfEmittedTokensAreThoseOfPlainDecoding) {
  for (float temperature : {0.0f, 1.0f}) {
    const SamplingParams sampling = {.temperature = temperature, .seed = 3};
    EngineHarness harness;
    const Text prompt = {3, 1, 4, 1, 5};
    const Text plain = PlainText(harness.script, prompt, sampling, 25);
    Client client = {.id = {1, 1}, .text = prompt, .sampling = sampling};
    LogprobRows seen = {.top = 4};
    int64_t rounds = 0;
    while (std::ssize(client.text) < 25) {
      VerifyRequest request =
          client.Request(TreeWith(plain, std::ssize(client.text)));
      request.logprobs.emitted = 4;
      // They change what is sampled, not what the model says.
      const auto result = harness.Ask(std::move(request));
      ASSERT_TRUE(result.ok()) << result.status();
      seen.Append(result->logprobs);
      EXPECT_EQ(result->prompt_logprobs.size(), 0);
      client.Commit(*result);
      ++rounds;
    }
    EXPECT_LT(rounds, 15) << "drafts are accepted";
    EXPECT_EQ(seen, Expected(harness.script, client.text, 5, 4));
  }
}

TEST(VerifyEngineLogprobsTest, AreOfTheModelAndNotOfWhatARequestChanges) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = {3, 1, 4}};
  VerifyRequest request = client.Request();
  request.adjustments.bias = {{7, 100.0f}};
  request.logprobs.emitted = 2;
  const auto result = harness.Ask(std::move(request));
  ASSERT_TRUE(result.ok()) << result.status();
  client.Commit(*result);
  EXPECT_EQ(client.text.back(), 7);
  EXPECT_EQ(result->logprobs, Expected(harness.script, client.text, 3, 2));
}

TEST(VerifyEngineLogprobsTest, OfAPromptComeWithItsResultWhateverThePasses) {
  const Text prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9};
  for (int64_t max_rows : {2, 3, 32}) {
    EngineHarness harness({.max_rows = max_rows});
    Client client = {.id = {1, 1}, .text = prompt};
    VerifyRequest request = client.Request();
    request.logprobs = {.emitted = std::nullopt, .prompt = 3};
    const auto result = harness.Ask(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->prompt_logprobs, Expected(harness.script, prompt, 1, 3));
    EXPECT_EQ(result->logprobs.size(), 0);
  }
}

// The first request cached the prompt without them.
TEST(VerifyEngineLogprobsTest, OfAPromptThatIsCachedAreComputedToo) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = {3, 1, 4, 1, 5, 9, 2, 6}};
  ASSERT_TRUE(harness.Ask(client.Request()).ok());
  VerifyRequest request = client.Request();
  request.update.round = 2;
  request.logprobs.prompt = 2;
  const auto result = harness.Ask(std::move(request));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->prompt_logprobs,
            Expected(harness.script, client.text, 1, 2));
}

// A second request for them takes its K/V from the first one.
TEST(VerifyEngineLogprobsTest, OfAPromptThatWasAskedForBeforeAreNotComputed) {
  EngineHarness harness({.shares_kv = true});
  const Text prompt(100, 5);
  for (uint64_t number : {1, 2, 3}) {
    Client client = {.id = {1, number}, .text = prompt};
    client.text.push_back(static_cast<TokenId>(number));
    VerifyRequest request = client.Request();
    request.logprobs.prompt = 2;
    const auto result = harness.Ask(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->prompt_logprobs,
              Expected(harness.script, client.text, 1, 2));
    EXPECT_EQ(result->cached_tokens > 0, number > 1);
    harness.engine->EndSequence(client.id);
  }
}

// The younger session gives way in the middle of its prompt, and computes it
// again.
TEST(VerifyEngineLogprobsTest, OfAPreemptedPromptAreThereOnce) {
  EngineHarness harness({.max_rows = 4, .pool_tokens = 40});
  Client older = {.id = {1, 1}, .text = Text(20, 5)};
  Client younger = {.id = {1, 2}, .text = Text(16, 6)};
  VerifyRequest first = older.Request();
  first.max_length = 40;
  VerifyRequest second = younger.Request();
  second.max_length = 17;
  second.logprobs.prompt = 1;
  const auto reply = harness.Send(std::move(second));
  ASSERT_TRUE(harness.executor->RunOne());
  const auto other = harness.Send(std::move(first));
  while (!reply->value || !other->value) {
    if (!harness.executor->RunOne()) {
      harness.executor->AdvanceBy(absl::Milliseconds(100));
    }
    if (other->value && !reply->value) {
      harness.engine->EndSequence(older.id);
    }
  }
  ASSERT_TRUE((*reply->value).ok()) << (*reply->value).status();
  EXPECT_EQ((*reply->value)->prompt_logprobs,
            Expected(harness.script, younger.text, 1, 1));
}

TEST(VerifyEngineLogprobsTest, TooManyAreRefused) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = {3}};
  VerifyRequest request = client.Request();
  request.logprobs.emitted = 21;
  EXPECT_TRUE(absl::IsInvalidArgument(harness.Ask(request).status()));
}

// There are fewer tokens than are asked for.
TEST(VerifyEngineLogprobsTest, AVocabularyMayBeSmall) {
  EngineHarness harness({.vocab_size = 5});
  Client client = {.id = {1, 1}, .text = {3, 1}};
  VerifyRequest request = client.Request();
  request.logprobs = {.emitted = 20, .prompt = 20};
  const auto result = harness.Ask(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->logprobs.top, 5);
  EXPECT_EQ(result->prompt_logprobs.top, 5);
}

}  // namespace
}  // namespace espalier::verifier
