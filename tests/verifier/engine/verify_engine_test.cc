// The engine emits the same text as plain decoding.

#include "verifier/engine/verify_engine.h"

#include <functional>
#include <ostream>
#include <random>
#include <string>

#include "common/base/serial_executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;

const Text kPrompt = {7, 3, 31, 12, 5, 9, 22, 14, 1, 8, 30};
constexpr int64_t kLength = 60;  // of the whole text

// A drafter that may know the next tokens; `next` is the rest of the plain
// text.
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

// Returns the right path, at a depth that varies, among wrong nodes.
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

// Trees of several drafters side by side: the correct path occurs several
// times, with different depths.
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
    const auto verify_result = harness.Ask(
        client.Request(GetParam().draft(client.text.back(), next, random)));
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    EXPECT_EQ(verify_result->rule, "walk");
    EXPECT_EQ(verify_result->tokens.size(), verify_result->path.size() + 1);
    client.Commit(*verify_result);
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
  EngineHarness harness({.pool_tokens = 2000});  // for all of them
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

TEST(VerifyEngine, TheLastTokensOfTheContextAreReachedWithAnyTree) {
  EngineHarness harness({.max_context = 40});
  std::mt19937_64 random(3);
  Client client = {.id = {1, 1}, .text = kPrompt};
  const Text plain = PlainText(harness.script, kPrompt, {}, 60);
  while (client.text.size() <= 40) {
    const auto next = absl::MakeConstSpan(plain).subspan(client.text.size());
    const auto verify_result = harness.Ask(
        client.Request(GoodDraft(client.text.back(), next, random)));
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    client.Commit(*verify_result);
  }
  EXPECT_EQ(client.text, Text(plain.begin(), plain.begin() + 41));
  EXPECT_EQ(harness.Ask(client.Request()).status().code(),
            absl::StatusCode::kOutOfRange);
}

// Records the trees that the engine would decide.
class RecordingRule final : public VerificationRule {
 public:
  explicit RecordingRule(std::vector<TokenTree>* seen) : seen_(*seen) {}

  absl::string_view UnsupportedReason(const TokenTree& tree) override {
    seen_.push_back(tree);
    return "recorded";
  }
  absl::StatusOr<Acceptance> Accept(const TokenTree&, int64_t,
                                    TargetDistributions&,
                                    TokenSampler&) override {
    return absl::InternalError("refused above");
  }

 private:
  std::vector<TokenTree>& seen_;
};

// The context has room for 3 nodes of a tree, root included. Distributions hold
// for the whole tree alone.
TEST(VerifyEngine, ATreeThatIsCutLosesItsDistributions) {
  const auto seen_tree = [](int num_nodes, std::vector<int32_t> sampled) {
    std::vector<TokenTree> seen;
    EngineHarness harness(
        {.max_context = 40}, {}, [&seen](Registry<VerificationRule>& rules) {
          RegisterVerificationRules(rules);
          rules.Add("recording",
                    [&seen] { return std::make_unique<RecordingRule>(&seen); });
        });
    const Client client = {.id = {1, 1},
                           .text = Text(38, 6),
                           .sampling = {.temperature = 1, .seed = 1}};
    TokenTree tree = TokenTree::RootOnly(6);
    const int32_t distribution = tree.distributions.Add(
        {3, 4, 5}, {1 << 22, 1 << 22, 1 << 23}, SampleDependence::kIndependent);
    for (int i = 1; i < num_nodes; ++i) {
      tree.Add(0, static_cast<TokenId>(2 + i), -1.0f);
    }
    for (int32_t node : sampled) {
      tree.samples.push_back({.node = node, .distribution = distribution});
    }
    VerifyRequest request = client.Request(std::move(tree));
    request.rule = "recording";
    const auto verify_result = harness.Ask(std::move(request));
    EXPECT_TRUE(verify_result.ok()) << verify_result.status();
    EXPECT_EQ(seen.size(), 1u);
    return seen.at(0);
  };
  const TokenTree whole = seen_tree(3, {1, 2});
  EXPECT_EQ(whole.num_nodes(), 3);
  EXPECT_TRUE(whole.claims_distributions());
  EXPECT_EQ(whole.distributions.size(), 1);

  const TokenTree cut = seen_tree(4, {1, 2, 3});
  EXPECT_EQ(cut.num_nodes(), 3);
  EXPECT_FALSE(cut.claims_distributions());
  EXPECT_EQ(cut.distributions.size(), 0);

  // Whether they are lost must not depend on how many samples were alike.
  const TokenTree alike = seen_tree(3, {1, 2, 2});
  EXPECT_EQ(alike.num_nodes(), 3);
  EXPECT_FALSE(alike.claims_distributions());
}

TEST(VerifyEngine, SaysWhatItIs) {
  VerifyEngine::Options options;
  options.identity = {.name = "script", .tokenizer_fingerprint = 77};
  options.end_tokens = {2, 5};
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
  EXPECT_THAT(info.eos_token_ids, ElementsAre(2, 5));
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
  const auto verify_result = harness.Ask(client.Request(tree));
  EXPECT_THAT(verify_result->tokens, ElementsAre(2, 2, 2));
  EXPECT_THAT(verify_result->path, ElementsAre(1, 2));
  EXPECT_EQ(verify_result->near_ties, 3);
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
          [&answered](absl::StatusOr<VerifyResult> verify_result) {
            EXPECT_TRUE(verify_result.ok() ||
                        absl::IsUnavailable(verify_result.status()));
            ++answered;
          });
    }
    engine->reset();
    EXPECT_EQ(answered, 10);
  }
}

}  // namespace
}  // namespace espalier::verifier
