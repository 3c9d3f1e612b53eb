// The trees of a block drafter. tests/drafter/golden checks its numbers.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/nn/cpu_backend.h"
#include "drafter/dflash/ddtree.h"
#include "drafter/drafters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DraftBudget kBudget = {.max_nodes = 20, .max_depth = 16};

std::unique_ptr<Drafter> Make(std::map<std::string, std::string> options = {}) {
  const auto folders = testing::TinyDflashOnDisk();
  options.try_emplace("model", folders.drafter);
  // A scale that is learned would make trees depend on what came before.
  options.try_emplace("noise_scale", "1");
  auto drafter =
      NewDflashDrafter({.options = options, .target_folder = folders.target});
  EXPECT_TRUE(drafter.ok()) << drafter.status();
  ESPALIER_CHECK(drafter.ok());
  return *std::move(drafter);
}

// A text with its features.
struct Text {
  uint64_t number = 0;
  std::vector<TokenId> tokens;
  FeatureRows features;
  SamplingParams sampling;
  DraftBudget budget = kBudget;

  ViewAndFeatures View() const {
    return {.view = {.id = {.coordinator_epoch = 1, .number = number},
                     .tokens = tokens,
                     .sampling = sampling,
                     .budget = budget},
            .rows = &features};
  }
};

Text MakeText(std::mt19937_64& random, int64_t length) {
  Text text = {.number = random(),
               .tokens = RandomTokens(random, length, testing::kTinyVocab)};
  text.features = testing::TinyFeatures(text.tokens, /*width=*/96);
  return text;
}

// Returns the text as it was when it had so many tokens.
Text Prefix(const Text& text, int64_t length) {
  Text prefix = text;
  prefix.tokens.resize(length);
  prefix.features.CutFrom(length - 1);
  return prefix;
}

void ExpectSame(const TokenTree& a, const TokenTree& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.parents, b.parents);
  EXPECT_EQ(a.log_probs, b.log_probs);
}

TEST(DflashDrafterTest, WantsTheOutputsOfTheTargetsLayers) {
  const FeatureContract contract = WantedFeatures(*Make());
  EXPECT_THAT(contract.taps, ElementsAre(1, 2));
  EXPECT_EQ(contract.hidden_size, 48);
}

// On every backend, as threads cut the work differently.
TEST(DflashDrafterTest, TheCompanyAndTheThreadsDoNotChangeATree) {
  std::mt19937_64 random(1);
  std::vector<Text> texts;
  for (int64_t length : {2, 300, 33, 64, 7, 31}) {
    texts.push_back(MakeText(random, length));
    Text& text = texts.back();
    text.sampling = {.temperature = 0.5f * (texts.size() % 3),
                     .seed = random()};
    text.budget = {.max_nodes = 1 + static_cast<int64_t>(random() % 60),
                   .max_depth = 1 + static_cast<int64_t>(random() % 8)};
  }
  std::vector<ViewAndFeatures> views;
  for (const Text& text : texts) views.push_back(text.View());
  for (const nn::Kernels* kernels : nn::UsableBackends()) {
    for (const char* type : {"float32", "bfloat16", "int8", "int4"}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + type);
      const std::map<std::string, std::string> runtime = {
          {"cpu_kernels", kernels->name}, {"compute_type", type}};
      auto with_threads = runtime;
      with_threads.emplace("threads", "3");
      const auto together = DraftAll(*Make(with_threads), views);
      for (size_t i = 0; i < views.size(); ++i) {
        ExpectSame(together[i], DraftOne(*Make(runtime), views[i]));
        EXPECT_GT(together[i].num_nodes(), 1);
      }
    }
  }
}

TEST(DflashDrafterTest, BackendsAgree) {
  std::mt19937_64 random(16);
  for (int64_t length : {5, 32, 33, 90}) {
    const Text text = MakeText(random, length);
    auto draft = [&](const nn::Kernels& kernels) {
      return DraftOne(*Make({{"cpu_kernels", kernels.name},
                             {"compute_type", "float32"},
                             {"mode", "chain"}}),
                      text.View());
    };
    const TokenTree expected = draft(nn::PortableKernels());
    for (const nn::Kernels* kernels : nn::UsableBackends()) {
      const TokenTree tree = draft(*kernels);
      EXPECT_EQ(tree.tokens, expected.tokens) << kernels->name;
      EXPECT_THAT(
          tree.log_probs,
          ::testing::Pointwise(::testing::FloatNear(5e-3f), expected.log_probs))
          << kernels->name;
    }
  }
}

TEST(DflashDrafterTest, RoundByRoundEqualsAllAtOnce) {
  std::mt19937_64 random(2);
  const Text whole = MakeText(random, 80);
  auto drafter = Make();
  for (int64_t length = 3; length <= 80; length += 1 + random() % 7) {
    Text text = Prefix(whole, length);
    if (random() % 4 == 0) text.budget.max_nodes = 0;  // only catches up
    ExpectSame(DraftOne(*drafter, text.View()), DraftOne(*Make(), text.View()));
  }
}

TEST(DflashDrafterTest, FeaturesThatComeLateAreCaughtUpWith) {
  std::mt19937_64 random(3);
  const Text text = MakeText(random, 40);
  Text late = text;
  late.features.CutFrom(30);
  auto drafter = Make();
  EXPECT_GT(DraftOne(*drafter, late.View()).num_nodes(), 1);
  ExpectSame(DraftOne(*drafter, text.View()), DraftOne(*Make(), text.View()));
}

TEST(DflashDrafterTest, ALongPromptIsReadInPieces) {
  std::mt19937_64 random(4);
  const Text text = MakeText(random, 700);
  auto stepwise = Make();
  for (int64_t length : {100, 356, 357, 699}) {
    DraftOne(*stepwise, Prefix(text, length).View());
  }
  ExpectSame(DraftOne(*stepwise, text.View()), DraftOne(*Make(), text.View()));
}

TEST(DflashDrafterTest, LostFeaturesAreLeftOut) {
  std::mt19937_64 random(5);
  const Text text = MakeText(random, 50);
  Text cut = text;
  cut.features.CutBefore(20);
  const TokenTree from_rest = DraftOne(*Make(), cut.View());
  EXPECT_GT(from_rest.num_nodes(), 1);
  EXPECT_NE(from_rest.log_probs, DraftOne(*Make(), text.View()).log_probs);

  // A drafter that read them before they were lost still has them.
  auto drafter = Make();
  DraftOne(*drafter, Prefix(text, 30).View());
  ExpectSame(DraftOne(*drafter, cut.View()), DraftOne(*Make(), text.View()));

  // A gap after its context.
  auto gap = Make();
  DraftOne(*gap, Prefix(text, 10).View());
  const TokenTree around_gap = DraftOne(*gap, cut.View());
  EXPECT_GT(around_gap.num_nodes(), 1);
  EXPECT_NE(around_gap.log_probs, from_rest.log_probs);
}

// Positions of a text that was read before need no features.
TEST(DflashDrafterTest, ASecondSequenceOfTheTextTakesItsContext) {
  std::mt19937_64 random(16);
  const Text text = MakeText(random, 90);
  auto drafter = Make();
  DraftOne(*drafter, Prefix(text, 70).View());
  DraftOne(*drafter, Prefix(text, 71).View());  // offers that of the first
  drafter->Forget(text.View().view.id);
  Text second = text;
  second.number = 1;
  second.features.CutBefore(64);
  ExpectSame(DraftOne(*drafter, second.View()), DraftOne(*Make(), text.View()));

  const TokenTree alone = DraftOne(*Make(), second.View());
  second.number = 2;
  ViewAndFeatures salted = second.View();
  salted.view.cache_salt = "salt";
  ExpectSame(DraftOne(*drafter, salted), alone);
  Text whole = text;
  whole.number = 3;
  EXPECT_NE(DraftOne(*drafter, whole.View()).log_probs, alone.log_probs);
}

// A sampled text that the drafter is right about where it looks at the noise.
TEST(DflashDrafterTest, LearnsHowFarToTrustTheNoise) {
  std::mt19937_64 random(15);
  Text text = MakeText(random, 10);
  text.sampling = {.temperature = 1, .seed = 5};
  text.budget = {.max_nodes = 8, .max_depth = 1};
  auto fixed = Make();
  auto learning = Make({{"noise_scale", "auto"}});
  auto confidence = [&](Drafter& drafter) {
    return DraftOne(drafter, text.View()).log_probs[1];
  };
  EXPECT_EQ(confidence(*learning), confidence(*fixed));
  for (int round = 0; round < 40; ++round) {
    text.tokens.push_back(DraftOne(*learning, text.View()).tokens[1]);
    text.features = testing::TinyFeatures(text.tokens, /*width=*/96);
  }
  EXPECT_GT(confidence(*learning), confidence(*fixed));
}

TEST(DflashDrafterTest, WithoutFeaturesItDraftsNothing) {
  std::mt19937_64 random(6);
  Text text = MakeText(random, 10);
  auto drafter = Make();
  EXPECT_EQ(DraftOne(*drafter, text.View().view).num_nodes(), 1);
  ExpectSame(DraftOne(*drafter, text.View()), DraftOne(*Make(), text.View()));
}

TEST(DflashDrafterTest, FeaturesOfTheRootAndBehindAreNotRead) {
  std::mt19937_64 random(8);
  const Text text = MakeText(random, 30);
  Text early = Prefix(text, 20);
  const TokenTree expected = DraftOne(*Make(), early.View());
  early.features = text.features;
  ExpectSame(DraftOne(*Make(), early.View()), expected);
}

TEST(DflashDrafterTest, ASequenceThatWasForgottenStartsOver) {
  std::mt19937_64 random(9);
  Text text = MakeText(random, 30);
  auto drafter = Make();
  DraftOne(*drafter, text.View());
  Text other = MakeText(random, 25);
  other.number = text.number;
  drafter->Forget(text.View().view.id);
  ExpectSame(DraftOne(*drafter, other.View()), DraftOne(*Make(), other.View()));
}

TEST(DflashDrafterTest, ChainIsTheLikeliestPath) {
  std::mt19937_64 random(10);
  const Text text = MakeText(random, 30);
  const TokenTree chain = DraftOne(*Make({{"mode", "chain"}}), text.View());
  EXPECT_THAT(chain.parents, ElementsAre(-1, 0, 1, 2, 3, 4));
  ExpectSame(chain, DraftOne(*Make({{"width", "1"}}), text.View()));
}

TEST(DflashDrafterTest, WidthIsTheMostChildrenOfANode) {
  std::mt19937_64 random(11);
  const Text text = MakeText(random, 30);
  const TokenTree tree = DraftOne(*Make({{"width", "2"}}), text.View());
  std::vector<int> children(tree.num_nodes());
  for (int64_t i = 1; i < tree.num_nodes(); ++i) ++children[tree.parents[i]];
  EXPECT_EQ(*std::max_element(children.begin(), children.end()), 2);
}

TEST(DflashDrafterTest, ABudgetOf1024NodesIsUsedUp) {
  std::mt19937_64 random(12);
  Text text = MakeText(random, 30);
  text.budget.max_nodes = 5000;
  const TokenTree tree = DraftOne(*Make(), text.View());
  EXPECT_EQ(tree.num_nodes(), 1 + kMaxDdtreeNodes);
  EXPECT_TRUE(tree.Validate({.max_nodes = kMaxDdtreeNodes,
                             .max_depth = testing::kTinyBlock - 1,
                             .vocab_size = testing::kTinyVocab})
                  .ok());
}

// Folders of a drafter that differs in its configuration.
std::string Changed(const std::string& name, const nlohmann::json& changes) {
  testing::TinyDflash drafter = testing::MakeTinyDflash();
  drafter.config.merge_patch(changes);
  const std::string folder = testing::TinyDflashOnDisk().drafter + "_" + name;
  testing::WriteTinyDflash(drafter, folder);
  return folder;
}

TEST(DflashDrafterTest, ARowOfACausalBlockSeesNothingBehindIt) {
  std::mt19937_64 random(13);
  Text text = MakeText(random, 30);
  text.budget = {.max_nodes = 60, .max_depth = 3};
  for (const bool causal : {true, false}) {
    const nlohmann::json flag = {{"causal_head", causal}};
    const std::string name = causal ? "causal" : "whole";
    const std::string longer =
        Changed(name + "_longer", {{"dflash_config", flag}, {"block_size", 9}});
    const std::string shorter =
        Changed(name, {{"dflash_config", flag}, {"block_size", 4}});
    const TokenTree a = DraftOne(*Make({{"model", longer}}), text.View());
    const TokenTree b = DraftOne(*Make({{"model", shorter}}), text.View());
    EXPECT_EQ(a.log_probs == b.log_probs, causal);
  }
}

TEST(DflashDrafterTest, TheTargetMayTieItsHead) {
  const std::string target = testing::TinyDflashOnDisk().target + "_tied";
  testing::WriteTinyQwen3(target);
  auto drafter = NewDflashDrafter(
      {.options = {{"model", testing::TinyDflashOnDisk().drafter}},
       .target_folder = target});
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  std::mt19937_64 random(14);
  const Text text = MakeText(random, 30);
  EXPECT_EQ(DraftOne(**drafter, text.View()).num_nodes(), 21);
}

}  // namespace
}  // namespace espalier::drafter
