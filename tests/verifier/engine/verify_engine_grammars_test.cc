// Requests with a grammar: the text is that of plain decoding, whatever the
// trees, and matches.

#include <random>
#include <string>

#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/grammar/test_vocabulary.h"
#include "tests/verifier/engine_harness.h"
#include "tests/verifier/kernel_models.h"
#include "tests/verifier/small_trees.h"
#include "verifier/engine/grammar_masks.h"

namespace espalier::verifier::verify_engine_grammars_test {
namespace {

using ::testing::Each;
using ::testing::Lt;

// Runs a task when it is posted.
class InlineExecutor final : public Executor {
 public:
  void Post(Task task) override { std::move(task)(); }
  Timer PostAt(absl::Time, Task) override { return {}; }
  void Cancel(const Timer&) override {}
  absl::Time Now() const override { return absl::InfinitePast(); }
};

const ScriptedLanguageModel::Options kScript = {.vocab_size = 259};
constexpr TokenId kEnd = 256;
const Text kPrompt = {5, 6, 7};

grammar::GrammarCompiler::NewExecutor Inline() {
  return [](const std::string&) { return std::make_unique<InlineExecutor>(); };
}

std::shared_ptr<GrammarMasks> NewMasks(
    std::unique_ptr<Executor> executor,
    const grammar::Vocabulary& vocabulary = grammar::ByteVocabulary()) {
  std::shared_ptr<const grammar::Backend> backend =
      grammar::NewBackend(vocabulary);
  return std::make_shared<GrammarMasks>(
      std::make_unique<grammar::GrammarCompiler>(
          backend, grammar::GrammarCompiler::Limits(), Inline()),
      std::move(executor));
}

VerifyEngine::Options WithMasks() {
  return {.grammars = NewMasks(std::make_unique<InlineExecutor>())};
}

VerifyRequest WithGrammar(VerifyRequest request, const std::string& regex) {
  request.adjustments.prompt_length = std::ssize(kPrompt);
  request.adjustments.grammar = {.kind = GrammarSpec::Kind::kRegex,
                                 .text = regex};
  return request;
}

constexpr char kRegex[] = "(ab|[c-f]x){3,6}";

// Returns the output of `rounds` rounds, with trees of the tokens that the
// grammar has, and of others.
Text Decode(EngineUnderTest& harness, float temperature, uint64_t seed,
            const std::function<TokenTree(TokenId root)>& draft,
            int64_t* accepted = nullptr) {
  Client client = {.id = {.coordinator_epoch = 1, .number = seed + 1},
                   .text = kPrompt,
                   .sampling = {.temperature = temperature, .seed = seed}};
  while (std::ssize(client.text) < 24) {
    const auto result = harness.Ask(
        WithGrammar(client.Request(draft(client.text.back())), kRegex));
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) break;
    if (accepted != nullptr) *accepted += std::ssize(result->path);
    client.Commit(*result);
  }
  client.text.resize(24);
  return client.text;
}

TokenTree RandomDraft(TokenId root, std::mt19937_64& random) {
  constexpr std::string_view kLikely = "abcdefxx!";
  TokenTree tree = TokenTree::RootOnly(root);
  for (int i = 0; i < 20; ++i) {
    const auto parent = static_cast<int32_t>(random() % tree.num_nodes());
    const TokenId token =
        random() % 9 == 0
            ? kEnd
            : static_cast<TokenId>(kLikely[random() % kLikely.size()]);
    tree.Add(parent, token, tree.log_probs[parent] - 0.1f);
  }
  return tree;
}

TEST(VerifyEngineGrammars, TreesChangeNoText) {
  for (const float temperature : {0.0f, 1.0f, 4.0f}) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      EngineHarness plain(kScript, WithMasks()), drafted(kScript, WithMasks());
      const Text expected =
          Decode(plain, temperature, seed, TokenTree::RootOnly);
      std::mt19937_64 random(seed);
      int64_t accepted = 0;
      EXPECT_EQ(Decode(
                    drafted, temperature, seed,
                    [&](TokenId root) { return RandomDraft(root, random); },
                    &accepted),
                expected);
      EXPECT_GT(accepted, 0);
    }
  }
}

class GrammarsOfModels : public ::testing::TestWithParam<KernelModel> {};

TEST_P(GrammarsOfModels, TreesChangeNoText) {
  const ModelOptions options =
      WriteModel(GetParam(), "verify_engine_grammars_test");
  grammar::Vocabulary vocabulary = grammar::ByteVocabulary();
  vocabulary.tokens.resize(testing::kTinyVocab);
  const VerifyEngine::Options with_masks = {
      .grammars = NewMasks(std::make_unique<InlineExecutor>(), vocabulary)};
  EngineUnderTest plain(Load(options), with_masks);
  EngineUnderTest drafted(Load(options), with_masks);
  std::mt19937_64 random(5);
  for (const float temperature : {0.0f, 1.0f}) {
    int64_t accepted = 0;
    EXPECT_EQ(
        Decode(
            drafted, temperature, /*seed=*/1,
            [&](TokenId root) { return RandomDraft(root, random); }, &accepted),
        Decode(plain, temperature, /*seed=*/1, TokenTree::RootOnly));
    EXPECT_GT(accepted, 0);
    for (EngineUnderTest* engine : {&plain, &drafted}) {
      engine->engine->EndSequence({.coordinator_epoch = 1, .number = 2});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GrammarsOfModels,
                         ::testing::ValuesIn(KernelModels()),
                         [](const auto& test) { return test.param.name; });

TEST(VerifyEngineGrammars, TheTextMatchesAndThenEnds) {
  EngineHarness harness(kScript, WithMasks());
  const Text text = Decode(harness, 1.0f, 3, TokenTree::RootOnly);
  std::string output;
  size_t i = kPrompt.size();
  for (; i < text.size() && text[i] < kEnd; ++i) {
    output += static_cast<char>(text[i]);
  }
  EXPECT_THAT(output,
              ::testing::MatchesRegex("(ab|[c-f]x)(ab|[c-f]x)(ab|[c-f]x)"
                                      "(ab|[c-f]x)?(ab|[c-f]x)?(ab|[c-f]x)?"));
  ASSERT_LT(i, text.size());
  for (; i < text.size(); ++i) EXPECT_GE(text[i], kEnd);
}

// Disallowed nodes are not in the pass; the path names the request's nodes.
TEST(VerifyEngineGrammars, DisallowedNodesLeaveTheTree) {
  EngineHarness harness(kScript, WithMasks());
  int64_t rows = 0;
  harness.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    rows = batch[0].num_logit_rows;
    return absl::OkStatus();
  });
  const Client client = {.id = {1, 1}, .text = kPrompt};
  TokenTree tree = TokenTree::RootOnly(kPrompt.back());
  tree.Add(0, 'z', 0);
  tree.Add(1, 'a', 0);
  const int32_t a = tree.Add(0, 'a', 0);
  const int32_t b = tree.Add(a, 'b', 0);
  tree.Add(a, 'a', 0);
  const auto result = harness.Ask(WithGrammar(client.Request(tree), "abc"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(rows, 3);
  EXPECT_EQ(result->path, (std::vector<int32_t>{a, b}));
  EXPECT_EQ(result->tokens, (Text{'a', 'b', 'c'}));
  // A repetition is answered from memory, by the tree that was sent.
  rows = 0;
  const auto again = harness.Ask(WithGrammar(client.Request(tree), "abc"));
  EXPECT_EQ(again->path, result->path);
  EXPECT_EQ(rows, 0);
}

TEST(VerifyEngineGrammars, OnlyAllowedLogitsAreComputedUnlessLogprobsAreAsked) {
  EngineHarness harness(kScript, WithMasks());
  std::vector<TokenId> wanted;
  harness.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    wanted.clear();
    for (TokenId token = 0; token < kScript.vocab_size; ++token) {
      const auto& bits = batch[0].wanted;
      if (!bits.empty() && (bits[token / 32] >> (token % 32) & 1) != 0) {
        wanted.push_back(token);
      }
    }
    return absl::OkStatus();
  });
  const Client client = {.id = {1, 1}, .text = kPrompt};
  TokenTree tree = TokenTree::RootOnly(kPrompt.back());
  tree.Add(0, 'a', 0);
  VerifyRequest request = WithGrammar(client.Request(tree), "(a|c)[x-z]");
  ASSERT_TRUE(harness.Ask(request).ok());
  EXPECT_EQ(wanted, (Text{'a', 'c', 'x', 'y', 'z'}));

  request.update.sequence.number = 2;
  request.logprobs = {.emitted = 1};
  ASSERT_TRUE(harness.Ask(request).ok());
  EXPECT_TRUE(wanted.empty());
}

TEST(VerifyEngineGrammars, ARestartedVerifierGoesOnWithinTheGrammar) {
  EngineHarness whole(kScript, WithMasks());
  const Text expected = Decode(whole, 1.0f, 8, TokenTree::RootOnly);
  EngineHarness other(kScript, WithMasks());
  Client client = {.id = {1, 9},
                   .text = {expected.begin(), expected.begin() + 8},
                   .sampling = {.temperature = 1.0f, .seed = 8},
                   .round = 6};
  const auto result = other.Ask(WithGrammar(client.Request(), kRegex));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tokens[0], expected[8]);
}

TEST(VerifyEngineGrammars, WrongRequestsAreRefusedByName) {
  EngineHarness harness(kScript, WithMasks());
  const Client client = {.id = {1, 1}, .text = kPrompt};
  EXPECT_EQ(FieldOf(harness.Ask(WithGrammar(client.Request(), "(")).status()),
            "structured_output.regex");
  Client beyond = client;
  beyond.text.push_back('z');
  EXPECT_TRUE(absl::IsInvalidArgument(
      harness.Ask(WithGrammar(beyond.Request(), "abc")).status()));
  EXPECT_TRUE(harness.Ask(WithGrammar(client.Request(), "abc")).ok());
  EngineHarness without(kScript);
  EXPECT_FALSE(without.engine->info().supports_grammars);
  EXPECT_EQ(FieldOf(without.Ask(WithGrammar(client.Request(), "a")).status()),
            "structured_output.regex");
}

// While its masks are made, a sequence may end or be asked for again, and other
// sequences go on.
TEST(VerifyEngineGrammars, ARequestMayEndBeforeItsMasksAreThere) {
  auto owned = std::make_unique<FakeExecutor>();
  FakeExecutor& masks = *owned;
  EngineHarness harness(kScript, {.grammars = NewMasks(std::move(owned))});
  const Client client = {.id = {1, 1}, .text = kPrompt};
  const Client other = {.id = {1, 2}, .text = kPrompt};
  const auto ended = harness.Send(WithGrammar(client.Request(), "abc"));
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(harness.Ask(other.Request()).ok());
  harness.engine->EndSequence(client.id);
  harness.executor->RunUntilIdle();
  masks.RunUntilIdle();
  harness.executor->RunUntilIdle();
  ASSERT_EQ(ended->times_answered, 1);
  EXPECT_TRUE(absl::IsCancelled(ended->value->status()));

  const auto first = harness.Send(WithGrammar(client.Request(), "abc"));
  const auto second = harness.Send(WithGrammar(client.Request(), "abc"));
  harness.executor->RunUntilIdle();
  masks.RunUntilIdle();
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(absl::IsCancelled(first->value->status()));
  EXPECT_TRUE(second->value->ok());
  const auto late = harness.Send(WithGrammar(other.Request(), "abc"));
  harness.executor->RunUntilIdle();
  harness.engine.reset();
  EXPECT_EQ(late->times_answered, 1);
}

}  // namespace
}  // namespace espalier::verifier::verify_engine_grammars_test
