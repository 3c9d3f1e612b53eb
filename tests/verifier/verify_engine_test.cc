// What the engine emits is what plain decoding emits.

#include "verifier/verify_engine.h"

#include <functional>
#include <ostream>
#include <random>
#include <string>

#include "common/base/serial_executor.h"
#include "common/spec/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Text kPrompt = {7, 3, 31, 12, 5, 9, 22, 14, 1, 8, 30};
constexpr int64_t kLength = 60;  // of the whole text

// A drafter that may know what comes; `next` is the rest of the plain text.
using Draft = std::function<TokenTree(
    TokenId root, absl::Span<const TokenId> next, std::mt19937_64& random)>;

TokenTree NoDraft(TokenId root, absl::Span<const TokenId>, std::mt19937_64&) {
  return TokenTree::RootOnly(root);
}

TokenTree RandomDraft(TokenId root, absl::Span<const TokenId>,
                      std::mt19937_64& random) {
  TokenTree tree = TokenTree::RootOnly(root);
  const int64_t nodes = static_cast<int64_t>(random() % 30);
  for (int64_t i = 0; i < nodes; ++i) {
    tree.Add(static_cast<int32_t>(random() % tree.num_nodes()),
             static_cast<TokenId>(random() % 40), 0.0f);
  }
  return tree;
}

// The right path, at a depth that varies, among wrong nodes.
TokenTree GoodDraft(TokenId root, absl::Span<const TokenId> next,
                    std::mt19937_64& random) {
  TokenTree tree = TokenTree::RootOnly(root);
  int32_t node = 0;
  for (size_t i = 0; i < std::min<size_t>(next.size(), random() % 8); ++i) {
    for (uint64_t wrong = random() % 3; wrong > 0; --wrong) {
      tree.Add(node, static_cast<TokenId>((next[i] + wrong) % 40), 0.0f);
    }
    node = tree.Add(node, next[i], 0.0f);
    if (random() % 2) tree.Add(node, 0, 0.0f);
  }
  return tree;
}

// Trees of several drafters side by side: the right path is there several
// times, and not every copy goes as deep.
TokenTree RepeatedDraft(TokenId root, absl::Span<const TokenId> next,
                        std::mt19937_64& random) {
  TokenTree tree = TokenTree::RootOnly(root);
  for (int copy = 0; copy < 3; ++copy) {
    int32_t node = 0;
    for (size_t i = 0; i < std::min<size_t>(next.size(), random() % 6); ++i) {
      node = tree.Add(node, next[i], 0.0f);
    }
    tree.Add(node, static_cast<TokenId>(random() % 40), 0.0f);
  }
  return tree;
}

struct Case {
  std::string name;
  SamplingParams sampling;
  Draft draft;
  bool drafts_well = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [sampling_name, sampling] :
       {std::pair{"Greedy", SamplingParams{}},
        {"Sampled", {.temperature = 1, .seed = 1}},
        {"SampledOtherwise", {.temperature = 1, .seed = 2}},
        {"Filtered",
         {.temperature = 0.7f, .top_k = 10, .top_p = 0.9f, .seed = 3}}}) {
    cases.push_back(
        {std::string(sampling_name) + "NoDraft", sampling, NoDraft});
    cases.push_back(
        {std::string(sampling_name) + "RandomDraft", sampling, RandomDraft});
    cases.push_back({std::string(sampling_name) + "GoodDraft", sampling,
                     GoodDraft, /*drafts_well=*/true});
    cases.push_back({std::string(sampling_name) + "RepeatedDraft", sampling,
                     RepeatedDraft, /*drafts_well=*/true});
  }
  return cases;
}

class EngineText : public ::testing::TestWithParam<Case> {};

TEST_P(EngineText, IsThePlainText) {
  EngineHarness harness;
  const Text plain =
      PlainText(harness.script, kPrompt, GetParam().sampling, kLength + 10);
  std::mt19937_64 random(5);
  Client client = {
      .id = {1, 1}, .text = kPrompt, .sampling = GetParam().sampling};
  while (static_cast<int64_t>(client.text.size()) < kLength) {
    const auto next = absl::MakeConstSpan(plain).subspan(client.text.size());
    const auto verdict = harness.Ask(
        client.Request(GetParam().draft(client.text.back(), next, random)));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->rule, "walk");
    EXPECT_EQ(verdict->tokens.size(), verdict->path.size() + 1);
    client.Commit(*verdict);
  }
  client.text.resize(kLength);
  EXPECT_EQ(client.text, Text(plain.begin(), plain.begin() + kLength));
  const int64_t rounds = static_cast<int64_t>(client.round) - 1;
  const int64_t emitted = kLength - static_cast<int64_t>(kPrompt.size());
  if (GetParam().drafts_well) {
    EXPECT_LT(rounds, emitted / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineText, ::testing::ValuesIn(AllCases()),
                         [](const auto& named) { return named.param.name; });

TEST(VerifyEngine, InterleavedSessionsEmitWhatEachEmitsAlone) {
  EngineHarness harness;
  std::mt19937_64 random(6);
  std::vector<Client> clients;
  std::vector<Text> plain;
  for (uint64_t i = 0; i < 6; ++i) {
    Text prompt = kPrompt;
    prompt.resize(3 + i);
    const SamplingParams sampling = {.temperature = i % 2 ? 1.0f : 0.0f,
                                     .seed = i};
    plain.push_back(PlainText(harness.script, prompt, sampling, kLength + 10));
    clients.push_back({.id = {9, i}, .text = prompt, .sampling = sampling});
  }
  for (int step = 0; step < 20; ++step) {
    std::vector<std::shared_ptr<Reply>> replies;
    for (size_t i = 0; i < clients.size(); ++i) {
      const auto next = absl::MakeConstSpan(plain[i]).subspan(
          std::min(clients[i].text.size(), plain[i].size()));
      const Draft& draft = step % 2 ? GoodDraft : RandomDraft;
      replies.push_back(harness.Send(
          clients[i].Request(draft(clients[i].text.back(), next, random))));
    }
    harness.executor->RunUntilIdle();
    for (size_t i = 0; i < clients.size(); ++i) {
      ASSERT_TRUE(replies[i]->value->ok());
      clients[i].Commit(**replies[i]->value);
    }
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const size_t length = std::min<size_t>(clients[i].text.size(), kLength);
    EXPECT_EQ(Text(clients[i].text.begin(), clients[i].text.begin() + length),
              Text(plain[i].begin(), plain[i].begin() + length));
  }
}

TEST(VerifyEngine, ALongPromptDoesNotHoldUpOtherSessions) {
  EngineHarness harness({}, {.max_batch_rows = 8});
  Client brief = {.id = {1, 1}, .text = {4, 5}};
  brief.Commit(*harness.Ask(brief.Request()));

  const Client lengthy = {.id = {1, 2}, .text = Text(150, 6)};
  const auto slow = harness.Send(lengthy.Request());
  const auto quick = harness.Send(brief.Request());
  while (!quick->value) ASSERT_TRUE(harness.executor->RunOne());
  EXPECT_FALSE(slow->value.has_value());
  EXPECT_LE(harness.model->num_passes(), 1 + 2);  // its first, two shared
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(slow->value->ok());
}

TEST(VerifyEngine, ARepeatedRoundGetsTheSameVerdictWithoutAPass) {
  EngineHarness harness;
  Client client = {
      .id = {1, 1}, .text = kPrompt, .sampling = {.temperature = 1, .seed = 4}};
  const VerifyRequest request = client.Request();
  const auto first = harness.Ask(request);
  const int64_t passes = harness.model->num_passes();
  const auto again = harness.Ask(request);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(again->tokens, first->tokens);
  EXPECT_EQ(again->round, first->round);
  EXPECT_EQ(harness.model->num_passes(), passes);

  client.Commit(*again);
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text, PlainText(harness.script, kPrompt, client.sampling,
                                   kPrompt.size() + 2));
}

TEST(VerifyEngine, ARestartedVerifierIsFedAgainAndGoesOn) {
  const SamplingParams sampling = {.temperature = 1, .seed = 8};
  Client client = {.id = {1, 1}, .text = kPrompt, .sampling = sampling};
  {
    EngineHarness before;
    for (int i = 0; i < 5; ++i) client.Commit(*before.Ask(client.Request()));
  }
  EngineHarness after;
  const auto refused = after.Ask(client.Request());
  EXPECT_EQ(HeldLength(refused.status()), 0);
  client.held = 0;
  for (int i = 0; i < 5; ++i) client.Commit(*after.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(after.script, kPrompt, sampling, kPrompt.size() + 10));
}

TEST(VerifyEngine, AGapIsAnsweredWithTheLengthHeld) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  client.Commit(*harness.Ask(client.Request()));
  const int64_t held = client.held;
  client.text.insert(client.text.end(), {1, 2, 3});
  client.held += 2;
  EXPECT_EQ(HeldLength(harness.Ask(client.Request()).status()), held);
  client.held = held;
  EXPECT_TRUE(harness.Ask(client.Request()).ok());
}

TEST(VerifyEngine, OtherTokensAreAnsweredWithLengthZero) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  client.Commit(*harness.Ask(client.Request()));
  client.text[2] = 0;
  EXPECT_EQ(HeldLength(harness.Ask(client.Request()).status()), 0);
  client.held = 0;
  client.Commit(*harness.Ask(client.Request()));
  Text changed = kPrompt;
  changed[2] = 0;
  changed.push_back(client.text[kPrompt.size()]);
  EXPECT_EQ(client.text,
            PlainText(harness.script, changed, {}, changed.size() + 1));
}

TEST(VerifyEngine, ASenderThatGoesBackReplacesWhatFollows) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (int i = 0; i < 4; ++i) client.Commit(*harness.Ask(client.Request()));
  client.held = static_cast<int64_t>(kPrompt.size()) - 3;
  client.text.resize(client.held);
  client.text.insert(client.text.end(), {17, 18});
  const Text start = client.text;
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(harness.script, start, {}, start.size() + 1));
}

TEST(VerifyEngine, TokensSentAgainAreNotComputedAgain) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (int i = 0; i < 4; ++i) client.Commit(*harness.Ask(client.Request()));
  const int64_t passes = harness.model->num_passes();
  client.held = 2;
  EXPECT_TRUE(harness.Ask(client.Request()).ok());
  EXPECT_EQ(harness.model->num_passes(), passes + 1);
}

TEST(VerifyEngine, TheLastTokensOfTheContextAreReachedWithAnyTree) {
  EngineHarness harness({.max_context = 40});
  std::mt19937_64 random(3);
  Client client = {.id = {1, 1}, .text = kPrompt};
  const Text plain = PlainText(harness.script, kPrompt, {}, 60);
  while (client.text.size() <= 40) {
    const auto next = absl::MakeConstSpan(plain).subspan(client.text.size());
    const auto verdict = harness.Ask(
        client.Request(GoodDraft(client.text.back(), next, random)));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    client.Commit(*verdict);
  }
  EXPECT_EQ(client.text, Text(plain.begin(), plain.begin() + 41));
  EXPECT_EQ(harness.Ask(client.Request()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(VerifyEngine, SaysWhatItIs) {
  VerifyEngine::Options options;
  options.identity = {.name = "script", .tokenizer_fingerprint = 77};
  options.epoch = 5;
  options.pass_costs = {{1, absl::Milliseconds(7)}};
  EngineHarness harness({.max_rows = 20}, options);
  const VerifierInfo info = harness.engine->info();
  EXPECT_EQ(info.model.name, "script");
  EXPECT_EQ(info.model.vocab_size, 40);
  EXPECT_EQ(info.model.tokenizer_fingerprint, 77u);
  EXPECT_EQ(info.epoch, 5u);
  EXPECT_EQ(info.max_context, 200);
  EXPECT_EQ(info.max_tree_nodes, 19);  // the root takes one of the rows
  EXPECT_THAT(info.rules, ::testing::Contains("walk"));
  EXPECT_THAT(info.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(info.device, "script, float32, 1 threads, scripted");
  EXPECT_EQ(info.pass_costs, options.pass_costs);
}

TEST(VerifyEngine, CountsNearTiesOfEmittedTokens) {
  EngineHarness harness;
  harness.model->set_spoil([](std::vector<float>& row) {
    row[1] = 50.0f;
    row[2] = 50.0005f;
  });
  Client client = {.id = {1, 1}, .text = kPrompt};
  TokenTree tree = TokenTree::RootOnly(client.text.back());
  tree.Add(tree.Add(0, 2, 0.0f), 2, 0.0f);
  tree.Add(0, 9, 0.0f);  // not emitted, so its ties do not count
  const auto verdict = harness.Ask(client.Request(tree));
  EXPECT_THAT(verdict->tokens, ElementsAre(2, 2, 2));
  EXPECT_THAT(verdict->path, ElementsAre(1, 2));
  EXPECT_EQ(verdict->near_ties, 3);
}

TEST(VerifyEngine, RunsOnAThreadOfItsOwnAndAnswersAllBeforeItIsGone) {
  for (int trial = 0; trial < 20; ++trial) {
    prometheus::Registry metrics;
    Registry<VerificationRule> rules("rule");
    RegisterVerificationRules(rules);
    auto engine = VerifyEngine::Create(
        {},
        std::make_unique<ScriptedLanguageModel>(ScriptedLanguageModel::Options{
            .pool_tokens = 2000}),  // room for all
        std::make_unique<SerialExecutor>("verify"), rules, metrics);
    ASSERT_TRUE(engine.ok());
    std::atomic<int> answered = 0;
    for (uint64_t i = 0; i < 10; ++i) {
      const Client client = {.id = {1, i}, .text = Text(150, 3)};
      (*engine)->Verify(
          client.Request(), absl::InfiniteFuture(),
          [&answered](absl::StatusOr<Verdict> verdict) {
            EXPECT_TRUE(verdict.ok() || absl::IsUnavailable(verdict.status()));
            ++answered;
          });
    }
    engine->reset();
    EXPECT_EQ(answered, 10);
  }
}

}  // namespace
}  // namespace espalier::verifier
